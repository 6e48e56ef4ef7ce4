import { setImmediate as letOthersRun } from "node:timers/promises";
import { Gate } from "../sqlite/transactions.ts";
import { Checked, Page } from "./page.ts";
import type {
  Appended,
  Batch,
  Claim,
  EventLog,
  ListPage,
  NewSession,
  ReadRange,
  Remembered,
  RestingPage,
  SessionRow,
  StoredEvent,
} from "./port.ts";
import { Positions, type Known } from "./positions.ts";
import { cursorGone, invalidCursor, logClosed, sessionExists, sessionNotFound } from "./refusals.ts";
import { ReaderHolds, isRetired, toRetiredName } from "./removed-sessions.ts";
import { serialise, type Serialised } from "./segment.ts";
import type { ForeignWatch, SegmentStore } from "./store.ts";
import { Tail } from "./tail.ts";
import { createKept } from "./kept/kept.ts";
import { Wakes } from "./wakes.ts";

/** How long the tail is read without a look for writes of other processes. */
const TAIL_TRUST_MS = 100;

interface Creating {
  readonly session: NewSession;
  readonly resolve: (row: SessionRow) => void;
  readonly reject: (error: unknown) => void;
}

/** The event log on any store. Adds sequences, serialising, the tail and wakes. */
export class StoredLog implements EventLog {
  readonly turns: EventLog["turns"];
  readonly usage: EventLog["usage"];
  readonly #store: SegmentStore;
  readonly #watch: ForeignWatch;
  readonly #tail = new Tail();
  readonly #wakes = new Wakes((idle) => this.#watchOthers(!idle));
  readonly #positions: Positions;
  /** The version of the store when readers were last woken for the writes of other processes. */
  #wokenVersion: number;
  /** Held by a long commit: nothing may use the store before it settles. */
  readonly #gate = new Gate();
  readonly #holds = new ReaderHolds();
  readonly #checked = new Checked();
  /** Sessions for the next transaction. */
  readonly #creating: Creating[] = [];
  #closed = false;

  constructor(store: SegmentStore) {
    this.#store = store;
    this.#watch = store.watch();
    this.#positions = new Positions(store, (session) => this.#tail.forget(session));
    this.#wokenVersion = this.#positions.version;
    ({ turns: this.turns, usage: this.usage } = createKept(store, (work) => this.#calmly(work)));
  }

  /** Creates a session; those of the same moment share one transaction. */
  create(session: NewSession): Promise<SessionRow> {
    return new Promise((resolve, reject) => {
      this.#creating.push({ session, resolve, reject });
      if (this.#creating.length === 1) setImmediate(() => void this.#createAll(this.#creating.splice(0)));
    });
  }

  async #createAll(asked: readonly Creating[]): Promise<void> {
    try {
      const rows = await this.#calmly(() => this.#store.create(asked.map(({ session }) => session)));
      for (const [index, { session, resolve, reject }] of asked.entries()) {
        this.#positions.forget(session.id);
        const row = rows[index];
        if (!row) reject(sessionExists(session.id));
        else resolve(row);
        this.#wakes.tell(session.id);
      }
    } catch (error) {
      const [only] = asked;
      if (asked.length === 1) return only?.reject(error);
      // A session that cannot be stored must not fail the others.
      for (const one of asked) await this.#createAll([one]);
    }
  }

  find(session: string): Promise<SessionRow | undefined> {
    return this.#calmly(() => (isRetired(session) ? undefined : this.#store.find(session)));
  }

  list(page: ListPage): Promise<SessionRow[]> {
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
    // If the head is known, the batch is serialised while another commit is still under way.
    const serialiser = this.#positions.cached(session)?.serialiser;
    const ahead =
      serialiser && batch.after !== undefined ? serialise(batch, serialiser, batch.after + 1) : undefined;
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
    if (this.#positions.age > TAIL_TRUST_MS && !this.#gate.isHeld) this.#positions.look();
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
      // A filter may skip a long history; other work runs in between.
      await letOthersRun();
      await this.#calmly(() => page.readOn());
    }
    return page.events;
  }

  moved(session: string, after: number, options: { signal: AbortSignal; ordinal?: number }): Promise<void> {
    return this.#calmly(() => {
      options.signal.throwIfAborted();
      this.#positions.look();
      const known = this.#positions.of(session);
      if (known === undefined || known.position.head > after || !isOf(known, options.ordinal)) return;
      return this.#wakes.wait(session, after, options.signal);
    });
  }

  observe: EventLog["observe"] = (observer) => this.#wakes.observe(observer);

  trim(session: string, through: number): Promise<void> {
    return this.#calmly(() => {
      this.#store.trim(session, through);
      this.#positions.forget(session);
    });
  }

  remove(session: string): Promise<void> {
    return this.#calmly(() => {
      const ordinal = this.#store.position(session)?.ordinal;
      if (ordinal === undefined || isRetired(session) || !this.#holds.has(ordinal))
        this.#store.remove(session);
      else this.#retire(session, ordinal);
      this.#positions.forget(session);
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
      this.#positions.clear();
      return this.#store.close();
    });
  }

  #newest(session: string, range: ReadRange): StoredEvent[] | undefined {
    if (!isOf(this.#positions.cached(session), range.ordinal)) return undefined;
    return this.#positions.holds(session) ? this.#tail.read(session, range) : undefined;
  }

  /** The page after a cursor, from the tail or from the store. */
  #open(session: string, range: ReadRange): Pick<Page, "events" | "isWhole" | "readOn"> {
    this.#positions.look();
    const position = this.#known(session, range.ordinal)?.position;
    if (position === undefined) throw sessionNotFound(session);
    if (range.after < position.floor || range.after > position.head)
      throw cursorGone(session, range.after, position);
    const events = range.after === position.head ? [] : this.#newest(session, range);
    if (events) return { events, isWhole: true, readOn: () => {} };
    const page = new Page(this.#store, { id: session, position, checked: this.#checked }, range);
    // The first part is read now: the next commit may trim events, and they would be missing without an error.
    page.readOn();
    return page;
  }

  /** The session of this id; if it has another ordinal, the retired session of the given one. */
  #known(session: string, ordinal: number | undefined): Known | undefined {
    const known = this.#positions.of(session);
    return ordinal === undefined || isOf(known, ordinal) ? known : this.#positions.of(toRetiredName(ordinal));
  }

  #retire(session: string, ordinal: number): void {
    const name = toRetiredName(ordinal);
    this.#store.retire(session, name);
    // If this process ends before its readers do, the next start removes the rows.
    this.#holds.retire(ordinal, () => void this.remove(name).catch(() => {}));
  }

  /** Undefined if another writer has moved the head meanwhile. */
  #tryAppend(
    session: string,
    batch: Batch,
    ahead: Serialised | undefined,
  ): Appended | undefined | Promise<Appended | undefined> {
    const known = this.#positions.at(session, batch.after);
    const { position, serialiser } = known;
    const first = position.head + 1;
    const isReady = ahead?.serialiser === serialiser && ahead.first === first;
    const { segments } = isReady ? ahead : serialise(batch, serialiser, first);
    const settle = (committed: boolean): Appended | undefined => {
      if (!committed) {
        this.#positions.forget(session);
        return undefined;
      }
      const last = position.head + batch.events.length;
      known.position = { ...position, head: last };
      this.#tail.extend(session, segments);
      this.#wakes.moved(session, last);
      return { first, last };
    };
    const committed = this.#store.commit({ session, position, batch, segments });
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
    // The failure is ignored: the next caller gets it, too.
    this.#watch.start(() => void this.#calmly(() => this.#wakeForOthers()).catch(() => {}));
  }

  #wakeForOthers(): void {
    this.#positions.look();
    if (this.#positions.version === this.#wokenVersion) return;
    this.#wokenVersion = this.#positions.version;
    this.#wakes.tell(undefined);
    const waited = this.#wakes.sessions();
    this.#positions.confirm(waited);
    for (const session of waited) {
      const known = this.#positions.of(session);
      if (known) this.#wakes.moved(session, known.position.head);
      else this.#wakes.removed(session);
    }
  }

  #mustBeOpen(): void {
    if (this.#closed) throw logClosed();
  }
}

function isOf(known: Known | undefined, ordinal: number | undefined): boolean {
  return ordinal === undefined || known?.position.ordinal === ordinal;
}
