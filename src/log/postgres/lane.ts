import { setTimeout as sleep } from "node:timers/promises";
import type { Connections } from "../../postgres/connections.ts";
import { isAway } from "../../postgres/failure.ts";
import type { Appended } from "../port.ts";
import { fenced, keyTaken, sessionNotFound } from "../refusals.ts";
import { serialise, type NewSegment, type Serialised } from "../segment.ts";
import type { Position } from "../store.ts";
import { commitRuns, type ReadyBatch } from "./commit.ts";
import { Queue, type TakenRun } from "./queue.ts";

/** How long an append is repeated while the database is away. */
const PATIENCE_MS = 15_000;
const PAUSE_MS = 200;
/** The most sessions and text of one statement. */
const SESSIONS = 512;
const TEXT = 8 * 1024 * 1024;

/** The log's part in the appends. */
export interface LaneHost {
  positions(sessions: readonly string[]): Promise<Map<string, Position>>;
  committed(session: string, at: { position: Position; segments: readonly NewSegment[] }): void;
}

/** One connection for the appends of some sessions: those that gather while a statement is under way share the next. */
export class Lane {
  readonly #database: Connections;
  readonly #host: LaneHost;
  readonly #queues = new Map<string, Queue>();
  readonly #ready = new Set<Queue>();
  #isRunning = false;
  /** Whether the last statement was sent more than once. */
  #wasRepeated = false;

  constructor(database: Connections, host: LaneHost) {
    this.#database = database;
    this.#host = host;
  }

  append(session: string, batch: ReadyBatch): Promise<Appended> {
    const queue = this.#queueOf(session);
    const ahead = this.#serialiseAhead(queue, batch);
    return new Promise((resolve, reject) => {
      queue.waiting.push({ batch, ahead, resolve, reject });
      this.#ready.add(queue);
      if (!this.#isRunning) void this.#run();
    });
  }

  /** Forgets the position of a session, which another call, such as a trim, may have changed. */
  forget(session: string): void {
    const queue = this.#queues.get(session);
    queue?.forget();
    if (queue?.waiting.length === 0) this.#queues.delete(session);
  }

  #queueOf(session: string): Queue {
    const queue = this.#queues.get(session) ?? new Queue(session);
    // Moved to the end of the order of use: the longest unused queues are forgotten.
    this.#queues.delete(session);
    this.#queues.set(session, queue);
    for (const [name, oldest] of this.#queues) {
      if (this.#queues.size <= 4096) break;
      if (oldest.waiting.length > 0) break;
      this.#queues.delete(name);
    }
    return queue;
  }

  /** If the head is known, the batch is serialised while another statement is under way. */
  #serialiseAhead(queue: Queue, batch: ReadyBatch): Serialised | undefined {
    const { known, planned } = queue;
    if (!known || planned === undefined) return undefined;
    const after = batch.after ?? planned;
    if (after !== planned) return undefined;
    queue.planned = planned + batch.events.length;
    return serialise(batch, known.serialiser, planned + 1);
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    try {
      while (this.#ready.size > 0) {
        // Calls of the same moment join.
        await Promise.resolve();
        await this.#round();
      }
    } finally {
      this.#isRunning = false;
    }
  }

  async #round(): Promise<void> {
    const queues: Queue[] = [];
    for (const queue of this.#ready) {
      if (queues.length >= SESSIONS) break;
      this.#ready.delete(queue);
      queues.push(queue);
    }
    try {
      await this.#learn(queues.filter(({ known }) => !known));
    } catch (error) {
      for (const queue of queues) queue.reject(queue.waiting.length, error);
      return;
    }
    const taken = new Map<Queue, TakenRun>();
    let text = 0;
    for (const queue of queues) {
      if (queue.waiting.length === 0) continue;
      if (text > TEXT) {
        this.#ready.add(queue);
        continue;
      }
      const run = queue.takeRun();
      if (!run) continue;
      taken.set(queue, run);
      for (const { bodies, raws, blobs } of run.run.segments)
        text += bodies.length + (raws?.length ?? 0) + blobs.reduce((sum, blob) => sum + blob.text.length, 0);
    }
    if (taken.size > 0) await this.#store(taken);
    for (const queue of queues) if (queue.waiting.length > 0) this.#ready.add(queue);
  }

  /** Finds the positions of sessions that are not known. The appends of a session that does not exist fail. */
  async #learn(queues: readonly Queue[]): Promise<void> {
    if (queues.length === 0) return;
    const found = await this.#patiently(() => this.#host.positions(queues.map(({ session }) => session)));
    for (const queue of queues) {
      const position = found.get(queue.session);
      if (position) {
        queue.learn(position);
        queue.isConfirmed = true;
      } else {
        queue.reject(queue.waiting.length, sessionNotFound(queue.session));
        this.#queues.delete(queue.session);
      }
    }
  }

  async #store(taken: ReadonlyMap<Queue, TakenRun>): Promise<void> {
    const runs = [...taken.values()].map(({ run }) => run);
    let stored: Set<number>;
    try {
      stored = await this.#patiently(() => commitRuns(this.#database.query, runs));
    } catch (error) {
      await this.#storeApart(taken, error);
      return;
    }
    const isRepeated = this.#wasRepeated;
    const refused: [Queue, TakenRun][] = [];
    for (const [queue, entry] of taken) {
      if (stored.has(entry.run.position.ordinal)) this.#settle(queue, entry);
      else refused.push([queue, entry]);
    }
    for (const [queue, entry] of refused) {
      try {
        await this.#explain(queue, entry, isRepeated);
      } catch (error) {
        queue.reject(queue.waiting.length, error);
        queue.forget();
      }
    }
  }

  /** One failure must not fail the appends of other sessions, nor those before it in its session. */
  async #storeApart(taken: ReadonlyMap<Queue, TakenRun>, error: unknown): Promise<void> {
    for (const [queue, entry] of taken) {
      if (isAway(error)) {
        // The outcome is unknown, so the appends behind it cannot be placed either.
        queue.reject(queue.waiting.length, error);
        queue.forget();
      } else if (taken.size > 1) await this.#store(new Map([[queue, entry]]));
      else if (entry.pending.length > 1) queue.isSingle = true;
      else {
        queue.reject(1, error);
        queue.forget();
      }
    }
  }

  #settle(queue: Queue, { run, pending }: TakenRun): void {
    const position = { ...run.position, head: run.head };
    queue.learn(position);
    queue.waiting.splice(0, pending.length);
    if (queue.waiting.length === 0) queue.planned = run.head;
    queue.isSingle = queue.isConfirmed = false;
    this.#host.committed(queue.session, { position, segments: run.segments });
    let first = run.position.head + 1;
    for (const { batch, resolve } of pending) {
      resolve({ first, last: first + batch.events.length - 1 });
      first += batch.events.length;
    }
  }

  /** Finds out why a session was not stored: another epoch, another head, a taken key, or it was stored before. */
  async #explain(queue: Queue, entry: TakenRun, isRepeated: boolean): Promise<void> {
    const { run, pending } = entry;
    const { session } = queue;
    const last = run.batches.at(-1) as ReadyBatch;
    const [row] = await this.#patiently(() =>
      this.#database.query(
        `SELECT p.epoch, p.owner, p.head, p.floor, k.fingerprint, k.answer FROM sluice.places p
         LEFT JOIN sluice.keys k ON k.session = p.session AND k.key = $2 WHERE p.session = $1::bigint`,
        [run.position.ordinal, last.key?.key ?? ""],
      ),
    );
    queue.forget();
    if (!row) return;
    const [epoch, head] = [Number(row["epoch"]), Number(row["head"])];
    if (epoch !== last.epoch) {
      const facts = { epoch, owner: String(row["owner"]), given: last.epoch };
      return queue.reject(pending.length, fenced(session, facts));
    }
    // Nobody else writes under our epoch: a statement whose answer was lost has moved the head here.
    const isOurs = isRepeated && head === run.head && isSameKey(last, row);
    if (isOurs) return this.#settle(queue, entry);
    if (head !== run.position.head || last.key === undefined) return;
    if (pending.length > 1) queue.isSingle = true;
    else queue.reject(1, keyTaken(session, last.key.key));
  }

  /** Repeats the work while the database is away, up to a limit. */
  async #patiently<T>(work: () => Promise<T>): Promise<T> {
    this.#wasRepeated = false;
    for (const deadline = performance.now() + PATIENCE_MS; ;) {
      try {
        return await work();
      } catch (error) {
        if (!isAway(error) || performance.now() > deadline) throw error;
        this.#wasRepeated = true;
        await sleep(PAUSE_MS);
      }
    }
  }
}

function isSameKey({ key }: ReadyBatch, row: Record<string, unknown>): boolean {
  return !key || (row["fingerprint"] === key.fingerprint && row["answer"] === key.answer);
}
