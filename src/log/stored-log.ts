import { setImmediate as nextTurn } from "node:timers/promises";
import type {
  Appended,
  Batch,
  EventLog,
  NewSession,
  ReadRange,
  Remembered,
  SessionRow,
  StoredEvent,
} from "./port.ts";
import { Gate } from "./gate.ts";
import { Page } from "./page.ts";
import { cursorGone, invalidCursor, logClosed, outOfStep, sessionNotFound } from "./refusals.ts";
import { Sealer } from "./seal.ts";
import { toSegments, type NewSegment } from "./segment.ts";
import type { ForeignWatch, Place, SegmentStore } from "./store.ts";
import { Tail } from "./tail.ts";
import { Wakes } from "./wakes.ts";

const KNOWN_SESSIONS = 4096;
const TAIL_TRUST_MS = 100;

/** The log over any store: what sequence, seal, tail and wake have in common. */
export class StoredLog implements EventLog {
  readonly #store: SegmentStore;
  readonly #watch: ForeignWatch;
  readonly #tail = new Tail();
  readonly #wakes = new Wakes((idle) => this.#watchOthers(!idle));
  readonly #known = new Map<string, Known>();
  #version: number;
  #versionTold: number;
  #versionSeen = performance.now();
  /** Held by a long commit: nobody may come near the store before it settles. */
  readonly #gate = new Gate();
  #closed = false;

  constructor(store: SegmentStore) {
    this.#store = store;
    this.#watch = store.watch();
    this.#version = store.version();
    this.#versionTold = this.#version;
  }

  create(session: NewSession): Promise<SessionRow> {
    return this.#calmly(() => {
      const row = this.#store.create(session);
      this.#forget(session.id);
      return row;
    });
  }

  find(session: string): Promise<SessionRow | undefined> {
    return this.#calmly(() => this.#store.find(session));
  }

  list(page: { before?: number; limit: number }): Promise<SessionRow[]> {
    return this.#calmly(() => this.#store.list(page));
  }

  active(): Promise<SessionRow[]> {
    return this.#calmly(() => this.#store.active());
  }

  claim(session: string, claim: { owner: string; from: number }): Promise<number> {
    return this.#calmly(() => this.#store.claim(session, claim));
  }

  async append(session: string, batch: Batch): Promise<Appended> {
    // Where the place is known beforehand, it need not be waited for.
    let sealed = batch.after === undefined ? undefined : this.#seal(session, batch, batch.after + 1);
    for (;;) {
      const appended = await this.#calmly(() => this.#tryAppend(session, batch, sealed));
      if (appended) return appended;
      sealed = undefined;
    }
  }

  recall(session: string, key: string): Promise<Remembered | undefined> {
    return this.#calmly(() => this.#store.recall(session, key));
  }

  peek(session: string, range: ReadRange): StoredEvent[] | undefined {
    if (this.#closed) return undefined;
    const isFresh = performance.now() - this.#versionSeen <= TAIL_TRUST_MS;
    if (!isFresh && !this.#gate.isHeld) this.#lookForOthers();
    const newest = this.#newest(session, range);
    return newest?.length === 0 ? undefined : newest;
  }

  async read(session: string, range: ReadRange): Promise<StoredEvent[]> {
    this.#mustBeOpen();
    if (!Number.isSafeInteger(range.after) || range.after < 0) throw invalidCursor(range.after);
    const newest = this.peek(session, range);
    if (newest !== undefined) return newest;

    const page = await this.#calmly(() => this.#open(session, range));
    while (!page.isWhole) {
      await this.#calmly(() => page.readOn());
      // A filter may skip over a long history; others want to run meanwhile.
      if (range.types) await nextTurn();
    }
    return page.events;
  }

  moved(session: string, after: number, options: { signal: AbortSignal }): Promise<void> {
    return this.#calmly(() => {
      options.signal.throwIfAborted();
      this.#lookForOthers();
      const known = this.#place(session);
      if (known === undefined || known.place.head > after) return;
      return this.#wakes.wait(session, after, options.signal);
    });
  }

  trim(session: string, through: number): Promise<void> {
    return this.#calmly(() => {
      this.#store.trim(session, through);
      this.#forget(session);
    });
  }

  remove(session: string): Promise<void> {
    return this.#calmly(() => {
      this.#store.remove(session);
      this.#forget(session);
      this.#wakes.removed(session);
    });
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#wakes.close(logClosed());
    this.#watch.close();
    await this.#gate.pass(() => {
      this.#tail.clear();
      this.#known.clear();
      return this.#store.close();
    });
  }

  #newest(session: string, range: ReadRange): StoredEvent[] | undefined {
    if (this.#known.get(session)?.version !== this.#version) return undefined;
    return this.#tail.read(session, range);
  }

  /** The page behind a cursor: what of it is at hand, or what has to be read. */
  #open(session: string, range: ReadRange): Pick<Page, "events" | "isWhole" | "readOn"> {
    this.#lookForOthers();
    const place = this.#place(session)?.place;
    if (place === undefined) throw sessionNotFound(session);
    if (range.after < place.floor || range.after > place.head) throw cursorGone(session, range.after, place);
    const events = range.after === place.head ? [] : this.#newest(session, range);
    if (events) return { events, isWhole: true, readOn: () => {} };
    return new Page(this.#store, { id: session, place }, range);
  }

  #seal(session: string, batch: Batch, first: number): Sealed | undefined {
    const texts = this.#known.get(session)?.sealer.seal(batch.events, { first, time: batch.time });
    return texts && { first, segments: toSegments(batch.events, texts, first) };
  }

  /** Undefined when somebody else was faster. */
  #tryAppend(
    session: string,
    batch: Batch,
    before: Sealed | undefined,
  ): Appended | undefined | Promise<Appended | undefined> {
    const known = this.#placeAt(session, batch.after);
    const { place } = known;
    const first = place.head + 1;
    const sealed = before?.first === first ? before : this.#seal(session, batch, first);
    const segments = sealed?.segments ?? [];
    const settle = (committed: boolean): Appended | undefined => {
      if (!committed) {
        this.#forget(session);
        return undefined;
      }
      const last = place.head + batch.events.length;
      known.place = { ...place, head: last };
      this.#tail.extend(session, segments);
      this.#wakes.moved(session, last);
      return { first, last };
    };
    const committed = this.#store.commit({ session, place, batch, segments });
    if (typeof committed === "boolean") return settle(committed);
    const settled = committed.then(settle);
    this.#gate.hold(settled);
    return settled;
  }

  /** The place that an append expects. What is known of it may be old: another process may have written. */
  #placeAt(session: string, expected: number | undefined): Known {
    const isThere = (known: Known | undefined): boolean =>
      expected === undefined || known?.place.head === expected;
    if (!isThere(this.#place(session))) this.#forget(session);
    const known = this.#place(session);
    if (known === undefined) throw sessionNotFound(session);
    if (!isThere(known)) throw outOfStep(session, { after: expected, head: known.place.head });
    return known;
  }

  /** Runs the work when no commit is under way. */
  #calmly<T>(work: () => T | Promise<T>): Promise<T> {
    return this.#gate.pass(() => {
      this.#mustBeOpen();
      return work();
    });
  }

  /** Where a session stands, from memory as long as nobody else has written. */
  #place(session: string): Known | undefined {
    const known = this.#known.get(session);
    if (known?.version === this.#version) return known;
    const place = this.#store.place(session);
    if (known && place && isSame(known.place, place)) {
      known.version = this.#version;
      return known;
    }
    this.#forget(session);
    if (place === undefined) return undefined;
    const fresh = {
      place,
      version: this.#version,
      sealer: new Sealer({ id: session, createdAt: place.createdAt }),
    };
    this.#known.set(session, fresh);
    for (const [oldest] of this.#known) {
      if (this.#known.size <= KNOWN_SESSIONS) break;
      this.#forget(oldest);
    }
    return fresh;
  }

  #forget(session: string): void {
    this.#known.delete(session);
    this.#tail.forget(session);
  }

  #lookForOthers(): void {
    this.#version = this.#store.version();
    this.#versionSeen = performance.now();
  }

  #watchOthers(on: boolean): void {
    if (!on) {
      this.#watch.pause();
      return;
    }
    // What fails here fails whoever asks next, too.
    this.#watch.start(() => void this.#calmly(() => this.#wakeForOthers()).catch(() => {}));
  }

  #wakeForOthers(): void {
    this.#lookForOthers();
    if (this.#version === this.#versionTold) return;
    this.#versionTold = this.#version;
    for (const session of this.#wakes.sessions()) {
      const known = this.#place(session);
      if (known) this.#wakes.moved(session, known.place.head);
      else this.#wakes.removed(session);
    }
  }

  #mustBeOpen(): void {
    if (this.#closed) throw logClosed();
  }
}

/** A batch as it will stand in the log, where its first event has this sequence. */
interface Sealed {
  readonly first: number;
  readonly segments: readonly NewSegment[];
}

interface Known {
  place: Place;
  version: number;
  readonly sealer: Sealer;
}

function isSame(a: Place, b: Place): boolean {
  return a.ordinal === b.ordinal && a.head === b.head && a.floor === b.floor;
}
