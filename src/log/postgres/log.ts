import type { Connections } from "../../postgres/connections.ts";
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
} from "../port.ts";
import { invalidCursor, logClosed, sessionNotFound } from "../refusals.ts";
import { isRetired, ReaderHolds, toRetiredName } from "../removed-sessions.ts";
import type { Position } from "../store.ts";
import { Tail } from "../tail.ts";
import { Wakes } from "../wakes.ts";
import { Creation, Underway } from "./calls.ts";
import { toReady } from "./commit.ts";
import { Lane, type LaneHost } from "./lane.ts";
import { KnownPositions } from "./positions.ts";
import { PageReader } from "./reading.ts";
import { SessionRows } from "./rows.ts";
import { Signals } from "./signals.ts";
import { createKeptRows } from "./usage.ts";

/** The connections of a log: one for each lane, some for everything else, one that may listen. */
export interface LogConnections {
  readonly lanes: readonly Connections[];
  readonly others: Connections;
  readonly listening: Connections | undefined;
}

/** The event log on PostgreSQL, which several nodes may share (docs/decisions/0089). */
export class PostgresLog implements EventLog {
  readonly turns: EventLog["turns"];
  readonly usage: EventLog["usage"];
  readonly #connections: LogConnections;
  readonly #rows: SessionRows;
  readonly #pages: PageReader;
  readonly #lanes: readonly Lane[];
  readonly #signals: Signals;
  readonly #tail = new Tail();
  readonly #wakes = new Wakes((idle) => this.#signals.watch(!idle));
  readonly #holds = new ReaderHolds();
  readonly #positions: KnownPositions;
  readonly #appends = new Underway();
  readonly #removals = new Underway();
  readonly #creation: Creation;
  #isClosed = false;

  constructor(connections: LogConnections) {
    this.#connections = connections;
    const { others } = connections;
    this.#rows = new SessionRows(others);
    this.#creation = new Creation(this.#rows);
    this.#positions = new KnownPositions(this.#rows, (session) => this.#tail.forget(session));
    this.#pages = new PageReader(others);
    ({ turns: this.turns, usage: this.usage } = createKeptRows(others, () => this.#settled()));
    const host: LaneHost = {
      committed: (session, at) => this.#committed(session, at),
      positions: (sessions) => this.#rows.positions(sessions),
    };
    this.#lanes = connections.lanes.map((lane) => new Lane(lane, host));
    this.#signals = new Signals(others, connections.listening, {
      heard: (heads) => this.#heard(heads),
      poll: () => this.#poll(),
    });
  }

  /** Whether writes of other nodes are heard at once; else they are found by a poll. */
  get hears(): boolean {
    return this.#signals.hears;
  }

  start = (): Promise<void> => this.#signals.start();

  async create(session: NewSession): Promise<SessionRow> {
    this.#mustBeOpen();
    try {
      const row = await this.#creation.create(session);
      this.#signals.tell(row.ordinal);
      return row;
    } finally {
      this.#forget(session.id);
      this.#wakes.tell(session.id);
    }
  }

  async find(session: string): Promise<SessionRow | undefined> {
    await this.#settled(session);
    return isRetired(session) ? undefined : this.#rows.find(session);
  }

  async list(page: ListPage): Promise<SessionRow[]> {
    await this.#settled();
    return this.#rows.list(page);
  }

  async resting(page: RestingPage): Promise<SessionRow[]> {
    await this.#settled();
    return this.#rows.resting(page);
  }

  async size(): Promise<number> {
    await this.#settled();
    return this.#rows.size();
  }

  async active(): Promise<SessionRow[]> {
    await this.#settled();
    return this.#rows.active();
  }

  async retired(): Promise<SessionRow[]> {
    await this.#settled();
    return this.#rows.retired();
  }

  async claim(session: string, claim: Claim): Promise<number> {
    await this.#settled(session);
    const epoch = await this.#rows.claim(session, claim);
    this.#forget(session);
    return epoch;
  }

  append(session: string, batch: Batch): Promise<Appended> {
    if (this.#isClosed) return Promise.reject(logClosed());
    const appended = this.#laneOf(session).append(session, toReady(batch));
    this.#appends.add(session, appended);
    return appended;
  }

  async recall(session: string, key: string): Promise<Remembered | undefined> {
    await this.#settled(session);
    return this.#rows.recall(session, key);
  }

  peek(session: string, range: ReadRange): StoredEvent[] | undefined {
    const known = this.#isClosed ? undefined : this.#positions.fresh(session);
    if (!known || !isOf(known, range.ordinal)) return undefined;
    const newest = this.#tail.read(session, range);
    return newest?.length === 0 ? undefined : newest;
  }

  async read(session: string, range: ReadRange): Promise<StoredEvent[]> {
    this.#mustBeOpen();
    if (!Number.isSafeInteger(range.after) || range.after < 0) throw invalidCursor(range.after);
    const newest = this.peek(session, range);
    if (newest !== undefined) return newest;
    const { events, position } = await this.#pages.read(session, range);
    if (range.ordinal === undefined) this.#positions.learn(session, position);
    return events;
  }

  async moved(
    session: string,
    after: number,
    { signal, ordinal }: { signal: AbortSignal; ordinal?: number },
  ): Promise<void> {
    this.#mustBeOpen();
    signal.throwIfAborted();
    const known = this.#positions.get(session);
    if (known && known.head > after && isOf(known, ordinal)) return;
    // Waits before it looks, so that no commit comes in between.
    const waiting = this.#wakes.wait(session, after, signal);
    const fresh = this.#positions.fresh(session);
    if (!fresh || !isOf(fresh, ordinal))
      this.#positions.look(session).then(
        (position) => {
          if (!position || !isOf(position, ordinal)) this.#wakes.removed(session);
          else this.#wakes.moved(session, position.head);
        },
        // The poll looks again.
        () => {},
      );
    return waiting;
  }

  observe: EventLog["observe"] = (observer) => this.#wakes.observe(observer);

  async trim(session: string, through: number): Promise<void> {
    await this.#settled(session);
    await this.#rows.trim(session, through);
    this.#forget(session);
  }

  async remove(session: string): Promise<void> {
    const removal = this.#remove(session);
    this.#removals.add(session, removal);
    await removal;
  }

  async #remove(session: string): Promise<void> {
    await this.#settled(session);
    const position = (await this.#rows.positions([session])).get(session);
    if (!position) throw sessionNotFound(session);
    const { ordinal } = position;
    if (isRetired(session) || !this.#holds.has(ordinal)) await this.#rows.remove(session);
    else {
      const name = toRetiredName(ordinal);
      await this.#rows.retire(session, name);
      // If this process ends before its readers do, the next start removes the rows.
      this.#holds.retire(ordinal, () => void this.remove(name).catch(() => {}));
    }
    this.#forget(session);
    this.#signals.tell(ordinal);
    this.#wakes.removed(session);
  }

  hold(ordinal: number): () => void {
    return this.#holds.add(ordinal);
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#holds.close();
    this.#wakes.close(logClosed());
    await this.#appends.settled();
    await this.#signals.close();
    this.#tail.clear();
    const { lanes, others, listening } = this.#connections;
    const all = new Set([...lanes, others, ...(listening ? [listening] : [])]);
    await Promise.allSettled([...all].map((each) => each.close()));
  }

  #committed(session: string, { position, segments }: Parameters<LaneHost["committed"]>[1]): void {
    this.#tail.extend(session, segments);
    this.#positions.learn(session, position);
    this.#signals.tell(position.ordinal, position.head);
    this.#wakes.moved(session, position.head);
  }

  #heard(heads: ReadonlyMap<number, number | undefined>): void {
    this.#wakes.tell(undefined);
    for (const [ordinal, head] of heads) {
      const session = this.#positions.nameOf(ordinal);
      if (session === undefined) continue;
      if (head === undefined) {
        this.#forget(session);
        this.#wakes.removed(session);
      } else if (this.#positions.raise(session, head)) this.#wakes.moved(session, head);
    }
  }

  /** Looks at the sessions that somebody waits for, in one query. */
  async #poll(): Promise<void> {
    const waited = this.#wakes.sessions();
    if (waited.length === 0) return this.#wakes.tell(undefined);
    const positions = await this.#rows.positions(waited);
    let hasMoved = false;
    for (const session of waited) {
      const position = positions.get(session);
      const known = this.#positions.get(session);
      if (position && known?.ordinal === position.ordinal && known.head >= position.head) {
        this.#positions.learn(session, known);
        continue;
      }
      hasMoved = true;
      if (position) {
        this.#positions.learn(session, position);
        this.#wakes.moved(session, known && known.ordinal !== position.ordinal ? Infinity : position.head);
      } else {
        this.#forget(session);
        this.#wakes.removed(session);
      }
    }
    if (hasMoved || !this.#signals.hears) this.#wakes.tell(undefined);
  }

  #forget(session: string): void {
    this.#positions.forget(session);
    this.#laneOf(session).forget(session);
  }

  #laneOf(session: string): Lane {
    let hash = 0;
    for (let at = 0; at < session.length; at++) hash = (Math.imul(hash, 31) + session.charCodeAt(at)) | 0;
    return this.#lanes[Math.abs(hash) % this.#lanes.length] as Lane;
  }

  /** Waits for the calls before this one, so that it sees their events. */
  async #settled(session?: string): Promise<void> {
    this.#mustBeOpen();
    await this.#appends.settled(session);
    if (session === undefined) await this.#removals.settled();
  }

  #mustBeOpen(): void {
    if (this.#isClosed) throw logClosed();
  }
}

function isOf(position: Position, ordinal = position.ordinal): boolean {
  return position.ordinal === ordinal;
}
