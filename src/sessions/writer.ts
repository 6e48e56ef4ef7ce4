import { SluiceError, type EventDraft, type SessionInfo, type SessionSpec } from "../contract/index.ts";
import type { Batch, SessionRow } from "../log/port.ts";
import { withdrawnRequests } from "./bridged.ts";
import type { SessionDeps } from "./deps.ts";
import { Drafts } from "./drafts.ts";
import { isActive, type SessionFold } from "./fold.ts";
import { toSessionInfo } from "./info.ts";
import { loadFold } from "./load.ts";
import type { HarnessProcess } from "./process.ts";
import { waitingChange } from "./waiting.ts";

/** What may commit together with events. */
export interface CommitExtra {
  readonly key?: NonNullable<Batch["key"]>;
  /** The process whose lines the events were decoded from: its offset commits with them. */
  readonly ingests?: HarnessProcess;
}

/** What a writer needs of the engine around it. */
export type WriterDeps = Pick<SessionDeps, "log" | "owner" | "count">;

/** A session's only writer: its place in the log, and the fold of all that it has written. */
export class SessionWriter {
  readonly row: SessionRow;
  readonly fold: SessionFold;
  readonly #deps: WriterDeps;
  readonly #epoch: number;
  #lastTime: number;
  #spec: { settings: Partial<SessionSpec> | undefined; whole: SessionSpec };
  #wasActive: boolean;
  #info: SessionInfo;
  /** The newest append. */
  #last: Promise<unknown> = Promise.resolve();

  private constructor(deps: WriterDeps, row: SessionRow, fold: SessionFold, epoch: number) {
    this.#deps = deps;
    this.row = row;
    this.fold = fold;
    this.#epoch = epoch;
    this.#lastTime = row.updatedAt;
    this.#spec = { settings: undefined, whole: row.spec };
    this.#wasActive = row.active;
    this.#info = this.#toInfo();
  }

  /** Takes the session over: whoever wrote it before is fenced from here on, also an object of this very process. */
  static async claim(deps: WriterDeps, row: SessionRow): Promise<SessionWriter> {
    const epoch = await deps.log
      .claim(row.id, { owner: deps.owner, from: row.epoch, onlyIdle: !row.active })
      .catch((error: unknown) => keptEpoch(error, { row, owner: deps.owner }));
    // What the last owner wrote between our look and our claim counts.
    const fresh = (await deps.log.find(row.id)) ?? row;
    return new SessionWriter(deps, fresh, await loadFold(deps.log, fresh), epoch);
  }

  /** What the session is asked to be by now. */
  get spec(): SessionSpec {
    const { settings } = this.fold.changes;
    if (this.#spec.settings !== settings) this.#spec = { settings, whole: { ...this.row.spec, ...settings } };
    return this.#spec.whole;
  }

  /** The session as its log tells it: the fold may be ahead, and nobody may hear of what is not committed. */
  get info(): SessionInfo {
    return this.#info;
  }

  /** When the last event was written. */
  get lastTime(): number {
    return this.#lastTime;
  }

  /** A batch that begins with these. Time never goes back within a session, whatever the clock does. */
  drafts(events: readonly EventDraft[] = []): Drafts {
    this.#lastTime = Math.max(this.#lastTime, Date.now());
    const drafts = new Drafts(this.fold, this.#lastTime);
    drafts.addAll(events);
    return drafts;
  }

  /** The one place where this session's events become facts, in the order of asking. */
  async commit(drafts: Drafts, extra: CommitExtra): Promise<void> {
    const { fold } = this;
    drafts.addAll(withdrawnRequests(fold));
    const waiting = waitingChange(fold);
    if (waiting) drafts.add(waiting);
    const spool = extra.ingests?.mark({ checkpoint: drafts.endsTurn });
    if (drafts.events.length === 0 && spool === undefined) return void (await this.#last);
    const active = isActive(fold);
    const isCut = drafts.endsTurn || (drafts.movesTurn && !fold.turn);
    const batch: Batch = {
      epoch: this.#epoch,
      after: fold.head - drafts.events.length,
      time: drafts.time,
      events: drafts.events,
      ...(spool === undefined ? {} : { spool }),
      ...(isCut ? { snapshot: fold } : {}),
      ...(active === this.#wasActive ? {} : { active }),
      ...(extra.key === undefined ? {} : { key: extra.key }),
    };
    this.#wasActive = active;
    const info = this.#toInfo();
    const append = this.#append(batch, this.#last);
    this.#last = append;
    await append;
    this.#info = info;
    this.#deps.count(this.row.id, drafts);
    if (spool) await extra.ingests?.committed(spool);
  }

  #toInfo(): SessionInfo {
    const row = { ...this.row, updatedAt: this.#lastTime };
    return toSessionInfo(row, this.fold);
  }

  /** What follows from an append that failed is out of step, and fails for the same reason: nobody took us over. */
  async #append(batch: Batch, before: Promise<unknown>): Promise<void> {
    try {
      await this.#deps.log.append(this.row.id, batch);
    } catch (error) {
      await before;
      throw error;
    }
  }
}

/** A full disk must not keep a session from being deleted; our own earlier object has let go of it by now. */
function keptEpoch(error: unknown, { row, owner }: { row: SessionRow; owner: string }): number {
  if (row.owner === owner && error instanceof SluiceError && error.code === "storage_full") return row.epoch;
  throw error;
}
