import { outOfStep, sessionNotFound } from "./refusals.ts";
import { Sealer } from "./seal.ts";
import type { Place, SegmentStore } from "./store.ts";

const KNOWN_SESSIONS = 4096;

/** Where a session stands, and what writes its events. */
export interface Known {
  place: Place;
  readonly sealer: Sealer;
}

/** Where the sessions stand, from memory as long as nobody else has written. */
export class Places {
  readonly #store: SegmentStore;
  readonly #onForgotten: (session: string) => void;
  readonly #known = new Map<string, Known & { version: number }>();
  #version: number;
  #seen = performance.now();

  /** `onForgotten` hears of every session of which nothing is known any more. */
  constructor(store: SegmentStore, onForgotten: (session: string) => void) {
    this.#store = store;
    this.#onForgotten = onForgotten;
    this.#version = store.version();
  }

  /** Changes when somebody else has written. */
  get version(): number {
    return this.#version;
  }

  /** How long ago somebody looked whether others have written, in milliseconds. */
  get age(): number {
    return performance.now() - this.#seen;
  }

  look(): void {
    this.#version = this.#store.version();
    this.#seen = performance.now();
  }

  /** What is known without asking the store; it may be old. */
  recall(session: string): Known | undefined {
    return this.#known.get(session);
  }

  /** Whether what is known of it still holds, as far as anybody has looked. */
  holds(session: string): boolean {
    return this.#known.get(session)?.version === this.#version;
  }

  of(session: string): Known | undefined {
    const known = this.#known.get(session);
    if (known?.version === this.#version) return known;
    const place = this.#store.place(session);
    if (known && place && isSame(known.place, place)) {
      known.version = this.#version;
      return known;
    }
    this.forget(session);
    if (place === undefined) return undefined;
    const sealer = new Sealer({ id: session, createdAt: place.createdAt });
    const fresh = { place, sealer, version: this.#version };
    this.#known.set(session, fresh);
    for (const [oldest] of this.#known) {
      if (this.#known.size <= KNOWN_SESSIONS) break;
      this.forget(oldest);
    }
    return fresh;
  }

  /** One look at all of these: whichever stands where it is known to stand needs none of its own. */
  confirm(sessions: readonly string[]): void {
    const believed = new Map<string, Place>();
    for (const session of sessions) {
      const known = this.#known.get(session);
      if (known && known.version !== this.#version) believed.set(session, known.place);
    }
    if (believed.size === 0) return;
    const strayed = new Set(this.#store.strayed(believed));
    for (const session of believed.keys()) {
      const known = this.#known.get(session);
      if (known && !strayed.has(session)) known.version = this.#version;
    }
  }

  /** The place where a writer believes the session to be. */
  at(session: string, expected: number | undefined): Known {
    const isThere = (known: Known | undefined): boolean =>
      expected === undefined || known?.place.head === expected;
    // What is known may be old: another process may have written.
    if (!isThere(this.of(session))) this.forget(session);
    const known = this.of(session);
    if (known === undefined) throw sessionNotFound(session);
    if (!isThere(known)) throw outOfStep(session, { after: expected, head: known.place.head });
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

function isSame(a: Place, b: Place): boolean {
  return a.ordinal === b.ordinal && a.head === b.head && a.floor === b.floor;
}
