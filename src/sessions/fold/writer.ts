import { defined } from "../../contract/own-keys.ts";
import type { EventDraft, SessionEntry, SessionInfo, SessionSpec } from "../../contract/index.ts";
import type { Batch, SessionRow } from "../../log/port.ts";
import type { KeptHistory, KeptTurn } from "../../log/kept/turns.ts";
import { withdrawnRequests } from "../actions/tool-requests.ts";
import type { SessionDeps } from "../deps.ts";
import { claimEpoch } from "../lifecycle/claim.ts";
import type { HarnessProcess } from "../process/process.ts";
import { Drafts } from "./drafts.ts";
import { toListed, toSessionInfo, withSettings } from "./info.ts";
import { loadFold } from "./load.ts";
import { isTooLong } from "./long-texts.ts";
import { isActive, type SessionFold } from "./session-fold.ts";
import { waitingChange } from "./waiting.ts";
import { type Redact, withhold } from "../secrets/redact.ts";
import { type Account, budgetEvents, toAccount } from "../turn/budget.ts";

/** Data that commits together with events. */
export interface CommitExtra {
  readonly key?: NonNullable<Batch["key"]>;
  /** The process whose output was decoded into the events; its offset commits with them. */
  readonly ingests?: HarnessProcess;
}

/** The parts of the engine that a writer uses. */
export type WriterDeps = Pick<SessionDeps, "log" | "owner" | "count">;

/** The only writer of a session: its epoch and head in the log, and its fold. */
export class SessionWriter {
  readonly row: SessionRow;
  readonly fold: SessionFold;
  /** Removes the secrets of the newest process. Before one is known, no text may be joined from pieces. */
  redact: Redact = withhold;
  readonly #deps: WriterDeps;
  readonly #epoch: number;
  #lastTime: number;
  #spec: { settings: Partial<SessionSpec> | undefined; whole: SessionSpec };
  #wasActive: boolean;
  #info: SessionInfo;
  #account: Account;
  #listed: Pick<SessionEntry, "turns" | "words">;
  /** The newest append. */
  #last: Promise<unknown> = Promise.resolve();

  /** The epoch of this claim of the session. */
  get epoch(): number {
    return this.#epoch;
  }

  private constructor(deps: WriterDeps, row: SessionRow, fold: SessionFold, epoch: number) {
    this.#deps = deps;
    this.row = row;
    this.fold = fold;
    this.#epoch = epoch;
    this.#lastTime = row.updatedAt;
    this.#spec = { settings: undefined, whole: row.spec };
    this.#wasActive = row.active;
    this.#info = this.#toInfo();
    this.#account = toAccount(fold);
    this.#listed = toListed(fold);
  }

  /** Claims the session. Every earlier writer is fenced, also an earlier object of this process. */
  static async claim(deps: WriterDeps, row: SessionRow): Promise<SessionWriter> {
    const epoch = await claimEpoch(deps, row);
    // The last writer may have appended between the caller's look and this claim.
    const fresh = (await deps.log.find(row.id)) ?? row;
    return new SessionWriter(deps, fresh, await loadFold(deps.log, fresh), epoch);
  }

  /** The spec with all later changes. */
  get spec(): SessionSpec {
    const { settings } = this.fold.changes;
    if (this.#spec.settings !== settings)
      this.#spec = { settings, whole: withSettings(this.row.spec, settings) };
    return this.#spec.whole;
  }

  /** The session as committed. The fold may be ahead, and clients must not see uncommitted state. */
  get info(): SessionInfo {
    return this.#info;
  }

  /** What the session has used, as committed. */
  get account(): Account {
    return this.#account;
  }

  /** The session in the live list, as committed. */
  get entry(): SessionEntry {
    return { ...this.#info, ...this.#listed };
  }

  /** The time of the last event. */
  get lastTime(): number {
    return this.#lastTime;
  }

  /** A batch that begins with these events. Time never goes back within a session. */
  drafts(events: readonly EventDraft[] = []): Drafts {
    this.#lastTime = Math.max(this.#lastTime, Date.now());
    const drafts = new Drafts(this.fold, this.#lastTime, {
      redact: this.redact,
      lasts: this.spec.lasting === true,
    });
    drafts.addAll(events);
    return drafts;
  }

  /** Appends the batch. Batches commit in the order of the calls. */
  async commit(drafts: Drafts, extra: CommitExtra): Promise<void> {
    const { fold } = this;
    drafts.addAll(withdrawnRequests(fold));
    drafts.addAll(budgetEvents(fold, this.spec, drafts));
    const waiting = waitingChange(fold);
    if (waiting) drafts.add(waiting);
    const spool = extra.ingests?.mark({ withState: drafts.endsTurn });
    if (drafts.events.length === 0 && spool === undefined) return void (await this.#last);
    const active = isActive(fold);
    const takesSnapshot = drafts.endsTurn || (drafts.movesTurn && !fold.turn);
    const batch: Batch = {
      epoch: this.#epoch,
      after: fold.head - drafts.events.length,
      time: drafts.time,
      events: drafts.events,
      ...(spool === undefined ? {} : { spool }),
      // Without a snapshot, the events give the same fold.
      ...(takesSnapshot && !isTooLong(fold) ? { snapshot: fold } : {}),
      ...(drafts.turns.length > 0 ? { history: toHistory(drafts.turns, fold) } : {}),
      ...(drafts.usage.length > 0 ? { usage: drafts.usage } : {}),
      ...(active === this.#wasActive ? {} : { active }),
      ...(extra.key === undefined ? {} : { key: extra.key }),
    };
    this.#wasActive = active;
    const info = this.#toInfo();
    const account = toAccount(fold);
    const listed = toListed(fold);
    const append = this.#append(batch, this.#last);
    this.#last = append;
    await append;
    this.#info = info;
    this.#account = account;
    this.#listed = listed;
    this.#deps.count(this.row.id, drafts);
    if (spool) await extra.ingests?.committed(spool);
  }

  #toInfo(): SessionInfo {
    const row = { ...this.row, updatedAt: this.#lastTime };
    return toSessionInfo(row, this.fold);
  }

  /** After a failed batch, the next batch does not fit the head of the log. It fails with the error of the first. */
  async #append(batch: Batch, before: Promise<unknown>): Promise<void> {
    try {
      await this.#deps.log.append(this.row.id, batch);
    } catch (error) {
      await before;
      throw error;
    }
  }
}

/** A longer fold is not kept: large inputs in its queue would be stored again with every turn. */
const MAX_FOLD_LENGTH = 64 * 1024;

/** The ended turns of a batch, and the fold after them. It becomes text now, because it changes before the batch is stored. */
export function toHistory(turns: readonly KeptTurn[], fold: SessionFold): KeptHistory {
  const state = isTooLong(fold) ? "" : JSON.stringify(fold);
  const isKept = state !== "" && state.length <= MAX_FOLD_LENGTH;
  return { turns, folds: isKept ? [{ at: fold.head, state }] : [] };
}

/** The first event of a session; none where it is in the log. */
export function opening({ row, fold }: Pick<SessionWriter, "row" | "fold">): EventDraft[] {
  if (fold.started) return [];
  const { agent, directory, model } = row.spec;
  const metadata = { agent, ...defined({ directory, model }) };
  return [{ type: "session.started", source: "daemon", data: { metadata } }];
}
