import { outOfStep, sessionNotFound } from "./refusals.ts";
import { EventSerialiser } from "./serialise.ts";
import type { Position, SegmentStore } from "./store.ts";

const KNOWN_SESSIONS = 4096;

/** A session's position, and the serialiser of its events. */
export interface Known {
  position: Position;
  readonly serialiser: EventSerialiser;
}

/** The positions of sessions, cached as long as no other process has written. */
export class Positions {
  readonly #store: SegmentStore;
  readonly #onForgotten: (session: string) => void;
  readonly #known = new Map<string, Known & { version: number }>();
  #version: number;
  #seen = performance.now();

  /** `onForgotten` is called for every session whose position is forgotten. */
  constructor(store: SegmentStore, onForgotten: (session: string) => void) {
    this.#store = store;
    this.#onForgotten = onForgotten;
    this.#version = store.version();
  }

  /** Changes when another process has written. */
  get version(): number {
    return this.#version;
  }

  /** Milliseconds since the last look for writes of other processes. */
  get age(): number {
    return performance.now() - this.#seen;
  }

  /** Looks for writes of other processes. */
  look(): void {
    this.#version = this.#store.version();
    this.#seen = performance.now();
  }

  /** The cached position; it may be old. */
  cached(session: string): Known | undefined {
    return this.#known.get(session);
  }

  /** Whether the cached position is valid, as of the last look. */
  holds(session: string): boolean {
    return this.#known.get(session)?.version === this.#version;
  }

  /** The position, as of the last look: from the cache if no other process has moved the session, else from the store. */
  of(session: string): Known | undefined {
    const known = this.#known.get(session);
    if (known?.version === this.#version) return known;
    const position = this.#store.position(session);
    if (known && position && isSame(known.position, position)) {
      known.version = this.#version;
      return known;
    }
    this.forget(session);
    if (position === undefined) return undefined;
    const serialiser = new EventSerialiser({ id: session, createdAt: position.createdAt });
    const fresh = { position, serialiser, version: this.#version };
    this.#known.set(session, fresh);
    for (const [oldest] of this.#known) {
      if (this.#known.size <= KNOWN_SESSIONS) break;
      this.forget(oldest);
    }
    return fresh;
  }

  /** Checks the cached positions of these sessions in one query. */
  confirm(sessions: readonly string[]): void {
    const believed = new Map<string, Position>();
    for (const session of sessions) {
      const known = this.#known.get(session);
      if (known && known.version !== this.#version) believed.set(session, known.position);
    }
    if (believed.size === 0) return;
    const strayed = new Set(this.#store.strayed(believed));
    for (const session of believed.keys()) {
      const known = this.#known.get(session);
      if (known && !strayed.has(session)) known.version = this.#version;
    }
  }

  /** The position of a session. Fails if its head is not the expected one. */
  at(session: string, expected: number | undefined): Known {
    const isThere = (known: Known | undefined): boolean =>
      expected === undefined || known?.position.head === expected;
    // The cached position may be old: another process may have written.
    if (!isThere(this.of(session))) this.forget(session);
    const known = this.of(session);
    if (known === undefined) throw sessionNotFound(session);
    if (!isThere(known)) throw outOfStep(session, { after: expected, head: known.position.head });
    return known;
  }

  forget(session: string): void {
    this.#known.delete(session);
    this.#onForgotten(session);
  }

  clear(): void {
    this.#known.clear();
  }
}

function isSame(a: Position, b: Position): boolean {
  return a.ordinal === b.ordinal && a.head === b.head && a.floor === b.floor;
}
