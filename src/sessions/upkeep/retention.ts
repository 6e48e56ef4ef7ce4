import { defined } from "../../contract/own-keys.ts";
import { SluiceError, type SluiceEvent } from "../../contract/index.ts";
import type { EventLog, SessionRow } from "../../log/port.ts";
import { messageOf } from "../failure.ts";
import type { Logger } from "../deps.ts";
import { isResting } from "../fold/session-fold.ts";
import { loadFold, trimmableThrough } from "../fold/load.ts";

/** The number of sessions in each of the four passes of a round. */
const SESSIONS_A_PASS = 16;

export interface RetentionOptions {
  /** A session without an event for this long is removed. In every other session, older events are trimmed. */
  readonly keepMs?: number | undefined;
  /** While the log is larger, resting sessions are trimmed, then removed, the longest resting first. */
  readonly keepBytes?: number | undefined;
}

export interface RetentionDeps {
  readonly log: EventLog;
  readonly logger: Logger;
  readonly roundMs: number;
  /** Fails with `session_busy` where the session was used since this row. */
  remove(row: SessionRow): Promise<void>;
}

/** Removes and trims sessions that are older or larger than the limits, in small rounds. */
export class Retention {
  readonly #options: RetentionOptions;
  readonly #deps: RetentionDeps;
  readonly #expired: Walk;
  readonly #old: Walk;
  readonly #all: Walk;
  readonly #large: Walk;
  /** Whether everything that may be trimmed for the log's size is trimmed. */
  #isTrimmed = false;
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<unknown> = Promise.resolve();
  #ended = false;

  constructor(options: RetentionOptions, deps: RetentionDeps) {
    this.#options = options;
    this.#deps = deps;
    const { log } = deps;
    const resting = (byTtl: boolean): Walk =>
      new Walk((before, after) =>
        log.resting({ before, byTtl, limit: SESSIONS_A_PASS, ...(after && { after }) }),
      );
    this.#expired = resting(true);
    this.#old = resting(false);
    this.#large = resting(false);
    this.#all = new Walk((_, after) =>
      log.list({ limit: SESSIONS_A_PASS, ...(after && { before: after.ordinal }) }),
    );
  }

  /** Begins if there is a limit, or a session with a `ttl`. */
  async start(): Promise<void> {
    const { keepMs, keepBytes } = this.#options;
    const anyTtl = { before: Number.MAX_SAFE_INTEGER, byTtl: true, limit: 1 };
    const isNeeded = keepMs !== undefined || keepBytes !== undefined;
    if (isNeeded || (await this.#deps.log.resting(anyTtl)).length > 0) this.begin();
  }

  begin(): void {
    if (this.#timer === undefined) this.#later(this.#deps.roundMs / 10);
  }

  /** Resolves when no round runs any more. */
  async end(): Promise<void> {
    this.#ended = true;
    clearTimeout(this.#timer);
    await this.#round;
  }

  #later(ms: number): void {
    if (this.#ended) return;
    this.#timer = setTimeout(() => {
      this.#round = this.#runRound();
    }, ms);
    this.#timer.unref();
  }

  async #runRound(): Promise<void> {
    const now = Date.now();
    let forgotten = 0;
    for (const pass of [this.#removeExpired, this.#removeOld, this.#trimOld, this.#shrink]) {
      try {
        forgotten += await pass.call(this, now);
      } catch (error) {
        this.#complain("a round of forgetting failed", error);
      }
    }
    // After a removal there may be more to remove soon.
    this.#later(forgotten > 0 ? this.#deps.roundMs / 10 : this.#deps.roundMs);
  }

  async #removeExpired(now: number): Promise<number> {
    return this.#each(await this.#expired.next(now), (row) => this.#remove(row));
  }

  async #removeOld(now: number): Promise<number> {
    const { keepMs } = this.#options;
    if (keepMs === undefined) return 0;
    return this.#each(await this.#old.next(now - keepMs), (row) => this.#remove(row));
  }

  async #trimOld(now: number): Promise<number> {
    const { keepMs } = this.#options;
    if (keepMs === undefined) return 0;
    const since = now - keepMs;
    return this.#each(await this.#all.next(now), async (row) => {
      if (row.createdAt >= since) return false;
      return this.#trim(row, await lastEventBefore(this.#deps.log, row, since));
    });
  }

  async #shrink(now: number): Promise<number> {
    if (!(await this.#isTooLarge())) {
      this.#large.restart();
      this.#isTrimmed = false;
      return 0;
    }
    const rows = await this.#large.next(now);
    const forgotten = await this.#each(rows, async (row) => {
      if (!(await this.#isTooLarge())) return false;
      if (this.#isTrimmed) return this.#remove(row);
      return (await this.#rests(row)) && this.#trimToSize(row);
    });
    // A walk that trims is followed by a walk that removes, and the other way round.
    if (this.#large.isAtStart) this.#isTrimmed = !this.#isTrimmed;
    return forgotten;
  }

  async #isTooLarge(): Promise<boolean> {
    const { keepBytes } = this.#options;
    return keepBytes !== undefined && (await this.#deps.log.size()) > keepBytes;
  }

  async #trim(row: SessionRow, through: number): Promise<boolean> {
    const { log } = this.#deps;
    return trimSession(log, row, await findTrimPoint(log, row, through));
  }

  /** Trims the oldest turns of a session until the log is small enough, or only the last turn is left. */
  async #trimToSize(row: SessionRow): Promise<boolean> {
    const { log } = this.#deps;
    let turns = 0;
    let next = 1;
    let isTrimmed = false;
    let last = row.floor;
    for await (const point of trimPoints(log, row)) {
      last = point;
      turns += 1;
      if (turns < next) continue;
      // One by one at first, then an eighth more each time: many turns take few writes.
      next = turns + 1 + (turns >> 3);
      isTrimmed = (await trimSession(log, row, point)) || isTrimmed;
      if (this.#ended || !(await this.#isTooLarge())) return isTrimmed;
    }
    return (await trimSession(log, row, last)) || isTrimmed;
  }

  async #remove(row: SessionRow): Promise<boolean> {
    if (!(await this.#rests(row))) return false;
    await this.#deps.remove(row);
    this.#deps.logger({ level: "info", message: "removed a session that rested for long", session: row.id });
    return true;
  }

  async #rests(row: SessionRow): Promise<boolean> {
    return isResting(await loadFold(this.#deps.log, row));
  }

  /** Returns the number of sessions that changed. A failure does not stop the others. */
  async #each(rows: readonly SessionRow[], forget: (row: SessionRow) => Promise<boolean>): Promise<number> {
    let forgotten = 0;
    for (const row of rows) {
      if (this.#ended) break;
      try {
        if (await forget(row)) forgotten += 1;
      } catch (error) {
        if (!isInUse(error)) this.#complain("a session could not be forgotten", error, row.id);
      }
    }
    return forgotten;
  }

  #complain(message: string, error: unknown, session?: string): void {
    if (this.#ended) return;
    this.#deps.logger({ level: "error", message, ...defined({ session }), error: messageOf(error) });
  }
}

/** A walk through all sessions, page by page, which starts again at its end. */
class Walk {
  readonly #page: (before: number, after: SessionRow | undefined) => Promise<SessionRow[]>;
  #after: SessionRow | undefined;

  constructor(page: (before: number, after: SessionRow | undefined) => Promise<SessionRow[]>) {
    this.#page = page;
  }

  get isAtStart(): boolean {
    return this.#after === undefined;
  }

  async next(before: number): Promise<SessionRow[]> {
    const rows = await this.#page(before, this.#after);
    this.#after = rows.length < SESSIONS_A_PASS ? undefined : rows.at(-1);
    return rows;
  }

  restart(): void {
    this.#after = undefined;
  }
}

/** The session is in use again, or was removed meanwhile. */
function isInUse(error: unknown): boolean {
  return error instanceof SluiceError && ["session_busy", "session_not_found", "fenced"].includes(error.code);
}

/** Trims the oldest events of a session, but none that its fold needs. Returns whether any was trimmed. */
export async function trimSession(log: EventLog, row: SessionRow, through: number): Promise<boolean> {
  const end = Math.min(through, trimmableThrough(row));
  if (end <= row.floor) return false;
  await log.trim(row.id, end);
  return true;
}

/** The last event before the time, by binary search; the floor where there is none. */
export async function lastEventBefore(log: EventLog, row: SessionRow, time: number): Promise<number> {
  const isOlder = async (sequence: number): Promise<boolean> => {
    const [stored] = await log.read(row.id, { after: sequence - 1, limit: 1 });
    return stored !== undefined && Date.parse((JSON.parse(stored.body) as SluiceEvent).time) < time;
  };
  let older = row.floor;
  let newer = row.head + 1;
  // In most sessions not even the first event is older.
  let probe = older + 1;
  while (newer - older > 1) {
    if (await isOlder(probe)) older = probe;
    else newer = probe;
    probe = (older + newer) >> 1;
  }
  return older;
}

const MARKS = new Set(["input.accepted", "input.withdrawn", "turn.ended"] as const);

/**
 * The sequence of the last `turn.ended`, up to `through`, that left no input queued and is followed by another turn;
 * the floor if there is none. A log that is trimmed there begins between two turns and keeps its last turn.
 */
export async function findTrimPoint(log: EventLog, row: SessionRow, through: number): Promise<number> {
  let found = row.floor;
  if (through <= row.floor) return found;
  for await (const point of trimPoints(log, row)) {
    if (point > through) break;
    found = point;
  }
  return found;
}

/** The sequences at which a log may be trimmed, in order. */
async function* trimPoints(log: EventLog, row: SessionRow): AsyncGenerator<number> {
  const unended = new Set<string>();
  let ended = row.floor;
  let told = row.floor;
  for (let after = row.floor; ;) {
    const page = await log.read(row.id, { after, limit: 256, types: MARKS });
    if (page.length === 0) return;
    for (const stored of page) {
      after = stored.sequence;
      const event = JSON.parse(stored.body) as SluiceEvent;
      if (event.type === "input.accepted") {
        unended.add(event.data.turn_id);
        if (ended > told) yield (told = ended);
      }
      if (event.type === "input.withdrawn") unended.delete(event.data.turn_id);
      if (event.type === "turn.ended") {
        unended.delete(event.data.turn_id);
        if (unended.size === 0) ended = after;
      }
    }
  }
}
