import { setImmediate as nextTurn } from "node:timers/promises";
import type {
  Appended,
  Batch,
  Claim,
  EventLog,
  NewSession,
  ReadRange,
  Remembered,
  RestingPage,
  SessionRow,
  StoredEvent,
} from "./port.ts";
import { Gate } from "../sqlite/gate.ts";
import { Checked } from "./damaged.ts";
import { Page } from "./page.ts";
import { cursorGone, invalidCursor, logClosed, sessionNotFound } from "./refusals.ts";
import { Places, type Known } from "./places.ts";
import { Holds, isRetired, toRetiredName } from "./retired.ts";
import type { Sealer } from "./seal.ts";
import { toSegments, type NewSegment } from "./segment.ts";
import type { ForeignWatch, SegmentStore } from "./store.ts";
import { Tail } from "./tail.ts";
import { Wakes } from "./wakes.ts";

const TAIL_TRUST_MS = 100;

/** The log over any store: what sequence, seal, tail and wake have in common. */
export class StoredLog implements EventLog {
  readonly #store: SegmentStore;
  readonly #watch: ForeignWatch;
  readonly #tail = new Tail();
  readonly #wakes = new Wakes((idle) => this.#watchOthers(!idle));
  readonly #places: Places;
  /** The version of the places when the waiting readers last heard of others. */
  #versionTold: number;
  /** Held by a long commit: nobody may come near the store before it settles. */
  readonly #gate = new Gate();
  readonly #holds = new Holds();
  readonly #checked = new Checked();
  #closed = false;

  constructor(store: SegmentStore) {
    this.#store = store;
    this.#watch = store.watch();
    this.#places = new Places(store, (session) => this.#tail.forget(session));
    this.#versionTold = this.#places.version;
  }

  create(session: NewSession): Promise<SessionRow> {
    return this.#calmly(() => {
      const row = this.#store.create(session);
      this.#places.forget(session.id);
      return row;
    });
  }

  find(session: string): Promise<SessionRow | undefined> {
    return this.#calmly(() => (isRetired(session) ? undefined : this.#store.find(session)));
  }

  list(page: { before?: number; limit: number }): Promise<SessionRow[]> {
    return this.#calmly(() => this.#store.list(page));
  }

  resting(page: RestingPage): Promise<SessionRow[]> {
    return this.#calmly(() => this.#store.resting(page));
  }

  size(): Promise<number> {
    return this.#calmly(() => this.#store.size());
  }

  active(): Promise<SessionRow[]> {
    return this.#calmly(() => this.#store.active());
  }

  claim(session: string, claim: Claim): Promise<number> {
    return this.#calmly(() => this.#store.claim(session, claim));
  }

  async append(session: string, batch: Batch): Promise<Appended> {
    // Whoever knows where it will stand need not wait with the sealing.
    const sealer = this.#places.recall(session)?.sealer;
    const ahead = sealer && batch.after !== undefined ? seal(batch, sealer, batch.after + 1) : undefined;
    for (;;) {
      const appended = await this.#calmly(() => this.#tryAppend(session, batch, ahead));
      if (appended) return appended;
    }
  }

  recall(session: string, key: string): Promise<Remembered | undefined> {
    return this.#calmly(() => this.#store.recall(session, key));
  }

  peek(session: string, range: ReadRange): StoredEvent[] | undefined {
    if (this.#closed) return undefined;
    if (this.#places.age > TAIL_TRUST_MS && !this.#gate.isHeld) this.#places.look();
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
      // A filter may skip over a long history; others want to run meanwhile.
      await nextTurn();
      await this.#calmly(() => page.readOn());
    }
    return page.events;
  }

  moved(session: string, after: number, options: { signal: AbortSignal; ordinal?: number }): Promise<void> {
    return this.#calmly(() => {
      options.signal.throwIfAborted();
      this.#places.look();
      const known = this.#places.of(session);
      if (known === undefined || known.place.head > after || !isOf(known, options.ordinal)) return;
      return this.#wakes.wait(session, after, options.signal);
    });
  }

  trim(session: string, through: number): Promise<void> {
    return this.#calmly(() => {
      this.#store.trim(session, through);
      this.#places.forget(session);
    });
  }

  remove(session: string): Promise<void> {
    return this.#calmly(() => {
      const ordinal = this.#store.place(session)?.ordinal;
      if (ordinal === undefined || isRetired(session) || !this.#holds.has(ordinal))
        this.#store.remove(session);
      else this.#retire(session, ordinal);
      this.#places.forget(session);
      this.#wakes.removed(session);
    });
  }

  hold(ordinal: number): () => void {
    return this.#holds.add(ordinal);
  }

  retired(): Promise<SessionRow[]> {
    return this.#calmly(() => this.#store.retired());
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#holds.close();
    this.#wakes.close(logClosed());
    this.#watch.close();
    await this.#gate.pass(() => {
      this.#tail.clear();
      this.#places.clear();
      return this.#store.close();
    });
  }

  #newest(session: string, range: ReadRange): StoredEvent[] | undefined {
    if (!isOf(this.#places.recall(session), range.ordinal)) return undefined;
    return this.#places.holds(session) ? this.#tail.read(session, range) : undefined;
  }

  /** The page behind a cursor: what of it is at hand, or what has to be read. */
  #open(session: string, range: ReadRange): Pick<Page, "events" | "isWhole" | "readOn"> {
    this.#places.look();
    const place = this.#known(session, range.ordinal)?.place;
    if (place === undefined) throw sessionNotFound(session);
    if (range.after < place.floor || range.after > place.head) throw cursorGone(session, range.after, place);
    const events = range.after === place.head ? [] : this.#newest(session, range);
    if (events) return { events, isWhole: true, readOn: () => {} };
    const page = new Page(this.#store, { id: session, place, checked: this.#checked }, range);
    // At once: behind the next commit the place may be another, and what was trimmed would be missing without a word.
    page.readOn();
    return page;
  }

  /** The session of that name, or the retired one of that ordinal. */
  #known(session: string, ordinal: number | undefined): Known | undefined {
    const known = this.#places.of(session);
    return ordinal === undefined || isOf(known, ordinal) ? known : this.#places.of(toRetiredName(ordinal));
  }

  #retire(session: string, ordinal: number): void {
    const name = toRetiredName(ordinal);
    this.#store.retire(session, name);
    // A process that ends before has left them to the next start.
    this.#holds.retire(ordinal, () => void this.remove(name).catch(() => {}));
  }

  /** Undefined when somebody else was faster. */
  #tryAppend(
    session: string,
    batch: Batch,
    ahead: Sealed | undefined,
  ): Appended | undefined | Promise<Appended | undefined> {
    const known = this.#places.at(session, batch.after);
    const { place, sealer } = known;
    const first = place.head + 1;
    const isSealed = ahead?.sealer === sealer && ahead.first === first;
    const { segments } = isSealed ? ahead : seal(batch, sealer, first);
    const settle = (committed: boolean): Appended | undefined => {
      if (!committed) {
        this.#places.forget(session);
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

  /** Runs the work when no commit is under way. */
  #calmly<T>(work: () => T | Promise<T>): Promise<T> {
    return this.#gate.pass(() => {
      this.#mustBeOpen();
      return work();
    });
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
    this.#places.look();
    if (this.#places.version === this.#versionTold) return;
    this.#versionTold = this.#places.version;
    const waited = this.#wakes.sessions();
    this.#places.confirm(waited);
    for (const session of waited) {
      const known = this.#places.of(session);
      if (known) this.#wakes.moved(session, known.place.head);
      else this.#wakes.removed(session);
    }
  }

  #mustBeOpen(): void {
    if (this.#closed) throw logClosed();
  }
}

function isOf(known: Known | undefined, ordinal: number | undefined): boolean {
  return ordinal === undefined || known?.place.ordinal === ordinal;
}

/** A batch as it will stand in the log, where its first event has this sequence. */
interface Sealed {
  readonly sealer: Sealer;
  readonly first: number;
  readonly segments: readonly NewSegment[];
}

function seal(batch: Batch, sealer: Sealer, first: number): Sealed {
  const texts = sealer.seal(batch.events, { first, time: batch.time });
  return { sealer, first, segments: toSegments(batch.events, texts, first) };
}
