import {
  SluiceError,
  type EventDraft,
  type EventType,
  type SessionSpec,
  type SpoolMark,
} from "../contract/index.ts";
import type { KeptHistory, TurnHistory } from "./kept/turns.ts";
import type { UsageBook, UsageRow } from "./kept/usage.ts";
import type { SessionObserver } from "./wakes.ts";

/**
 * The events of all sessions. Each session has one gapless sequence, from 1; no event is ever changed.
 * Every implementation passes `log/testkit.ts`.
 */
export interface EventLog {
  /** Fails with `session_already_exists`, also when two callers race. */
  create(session: NewSession): Promise<SessionRow>;
  find(session: string): Promise<SessionRow | undefined>;
  /** Newest first. */
  list(page: ListPage): Promise<SessionRow[]>;
  /**
   * The sessions whose last event is older than `before`, the longest resting first. With `byTtl`, only those whose
   * `ttl` has passed. `after` is the last row of the previous page.
   */
  resting(page: RestingPage): Promise<SessionRow[]>;
  /** The bytes of rows and large texts on disk. Free space inside the database does not count. */
  size(): Promise<number>;
  /** The sessions that were left active, by any server. Recovery begins with them. */
  active(): Promise<SessionRow[]>;

  /**
   * Makes `owner` the only writer and returns the new epoch; every older epoch is fenced from then on. `from` is the
   * epoch that the caller saw: after another claim in between, this one fails with `fenced`. With `onlyIdle`, so does
   * the claim of a session that is active by now.
   */
  claim(session: string, claim: Claim): Promise<number>;
  /**
   * Commits the batch in one transaction, then wakes the readers. Fails with `fenced` for an old epoch, with
   * `storage_full` for a full disk; after a failure nothing of the batch exists.
   */
  append(session: string, batch: Batch): Promise<Appended>;
  /** The answer that a request with this idempotency key got, if there was one. */
  recall(session: string, key: string): Promise<Remembered | undefined>;

  /**
   * The events after the sequence `after`, at most `limit`; fewer (but at least one) where they are large. Fails with
   * `cursor_gone`.
   */
  read(session: string, range: ReadRange): Promise<StoredEvent[]>;
  /** As `read`, from memory and without waiting. Undefined where only `read` can answer. */
  peek(session: string, range: ReadRange): StoredEvent[] | undefined;
  /** Resolves once the log has an event after `after`, or the session is gone. Readers wait on nothing else. */
  moved(session: string, after: number, options: { signal: AbortSignal; ordinal?: number }): Promise<void>;

  /** Calls the observer for every session that changes, in the moment of the change. The returned function ends that. */
  observe(observer: SessionObserver): () => void;
  /** The kept turns and folds. */
  readonly turns: TurnHistory;
  /** The usage of all sessions. */
  readonly usage: UsageBook;

  /** Forgets the events up to `through`; a cursor before it is gone from then on. */
  trim(session: string, through: number): Promise<void>;
  /**
   * Removes the session with the large texts that only it uses; waiting readers wake. A session that readers hold is
   * retired: gone for others, its id free again. Its rows are removed when the last reader releases it, or half a minute
   * later.
   */
  remove(session: string): Promise<void>;
  /** Lets a reader of this `ordinal` read to the end when the session is removed. The returned function ends the hold. */
  hold(ordinal: number): () => void;
  /** The retired sessions of all servers. `remove` with the id of such a row removes its rows. */
  retired(): Promise<SessionRow[]>;
  close(): Promise<void>;
}

export interface ListPage {
  /** The `ordinal` of the last row of the page before. */
  readonly before?: number;
  readonly limit: number;
  /** Only the sessions of this tenant. The cost does not depend on the number of other sessions. */
  readonly tenant?: string;
}

export interface RestingPage {
  readonly before: number;
  readonly byTtl: boolean;
  readonly after?: Pick<SessionRow, "updatedAt" | "ordinal">;
  readonly limit: number;
}

export interface NewSession {
  readonly id: string;
  readonly spec: SessionSpec;
  readonly owner: string;
  readonly time: number;
  /** Absent for the engine's own user. */
  readonly tenant?: string | undefined;
  /** Recalled as the answer to the request that created it. */
  readonly key?: { readonly key: string } & Remembered;
}

export interface Claim {
  readonly owner: string;
  readonly from: number;
  readonly onlyIdle?: boolean;
}

/** The agent of a session whose spec is damaged in the store. */
export const DAMAGED_AGENT = "damaged";

export interface SessionRow {
  readonly id: string;
  readonly ordinal: number;
  /** Absent where its creator named none, and in sessions of older versions. */
  readonly tenant?: string;
  readonly spec: SessionSpec;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** The last sequence; 0 for an empty log. */
  readonly head: number;
  /** The events up to this sequence were trimmed away. */
  readonly floor: number;
  readonly epoch: number;
  readonly owner: string;
  /** Whether a crash would leave work, such as a running agent. The writer sets and clears it; recovery reads it. */
  readonly active: boolean;
  readonly spool?: SpoolMark & { readonly checkpointOffset?: number };
  readonly snapshot?: { readonly at: number; readonly state: unknown };
}

export interface Batch {
  readonly epoch: number;
  /** The head that the batch follows. If the append before it has failed, this one fails with `fenced`. */
  readonly after?: number;
  readonly time: number;
  readonly events: readonly EventDraft[];
  readonly spool?: SpoolMark;
  /** The session's fold after this batch. It is derived from the events, and saves folding them again. */
  readonly snapshot?: unknown;
  /** The turns that end in this batch. */
  readonly history?: KeptHistory;
  /** The model requests that end in this batch. */
  readonly usage?: readonly UsageRow[];
  readonly active?: boolean;
  readonly key?: { readonly key: string } & Remembered;
}

export interface Remembered {
  /** Identifies the request, so that another request under the same key can be refused. */
  readonly fingerprint: string;
  readonly answer: string;
}

export interface Appended {
  readonly first: number;
  readonly last: number;
}

export interface ReadRange {
  readonly after: number;
  readonly limit: number;
  readonly raw?: boolean;
  readonly types?: ReadonlySet<EventType>;
  /** Reads only the session of this row, even if it is retired, and not a later one of the same id. */
  readonly ordinal?: number;
}

/** A committed event: its universal JSON text, without `raw`. Written once, shared by all readers. */
export interface StoredEvent {
  readonly sequence: number;
  readonly type: EventType;
  readonly body: string;
  /** The native line as JSON text, where it was asked for and exists. */
  readonly raw?: string;
}

/** Reads after a cursor; if those events were trimmed away, from the oldest event that is left. */
export async function readKept(
  log: Pick<EventLog, "read">,
  session: string,
  range: ReadRange,
): Promise<StoredEvent[]> {
  for (let { after } = range; ;) {
    try {
      return await log.read(session, { ...range, after });
    } catch (error) {
      const floor = floorOf(error);
      if (floor === undefined || floor <= after) throw error;
      after = floor;
    }
  }
}

function floorOf(error: unknown): number | undefined {
  if (!(error instanceof SluiceError) || error.code !== "cursor_gone") return undefined;
  const { oldest } = error.facts;
  return typeof oldest === "number" ? oldest - 1 : undefined;
}
