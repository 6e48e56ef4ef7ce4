import type { EventDraft, EventType, SessionSpec, SpoolMark } from "../contract/index.ts";

/**
 * Facts, in order. One gapless sequence per session, from 1; nothing in it is ever changed.
 * Every implementation passes `log/testkit.ts`.
 */
export interface EventLog {
  /** Fails with `session_already_exists`, also when two callers race. */
  create(session: NewSession): Promise<SessionRow>;
  find(session: string): Promise<SessionRow | undefined>;
  /** Newest first. `before` is the `ordinal` of the last row of the page before. */
  list(page: { before?: number; limit: number }): Promise<SessionRow[]>;
  /**
   * The sessions whose last event is older than `before`, the longest resting first; with `byTtl` those of them with a
   * `ttl` that is over at that time. `after` is the last row of the page before.
   */
  resting(page: RestingPage): Promise<SessionRow[]>;
  /** How many bytes its rows and large texts take on disk; space that is free to be used again does not count. */
  size(): Promise<number>;
  /** The sessions that were left active, whoever left them: where recovery begins. */
  active(): Promise<SessionRow[]>;

  /**
   * Makes `owner` the only writer and answers the new epoch; every older epoch is fenced from then on.
   * `from` is the epoch that the caller saw: somebody else's claim in between fails with `fenced`.
   * With `onlyIdle` a session that is active by now is left to its owner, with the same failure.
   */
  claim(session: string, claim: Claim): Promise<number>;
  /**
   * Commits the batch in one transaction, then wakes the readers. Fails with `fenced` for an old epoch,
   * with `storage_full` when the disk is; after a failure nothing of the batch exists.
   */
  append(session: string, batch: Batch): Promise<Appended>;
  /** The answer that a request with this idempotency key got, if there was one. */
  recall(session: string, key: string): Promise<Remembered | undefined>;

  /** The events behind `after`, at most `limit` of them; fewer (but at least one) where they are big. Fails with `cursor_gone`. */
  read(session: string, range: ReadRange): Promise<StoredEvent[]>;
  /** What of `read` is at hand: the newest events, without waiting. Undefined where `read` has to be asked. */
  peek(session: string, range: ReadRange): StoredEvent[] | undefined;
  /** Resolves once the log has more than `after`, or the session is gone. The only thing that a reader waits on. */
  moved(session: string, after: number, options: { signal: AbortSignal; ordinal?: number }): Promise<void>;

  /** Forgets the events up to `through`; a cursor before it is gone from then on. */
  trim(session: string, through: number): Promise<void>;
  /**
   * Removes the session and all that only it refers to; waiting readers wake. Where readers hold it, it is retired: gone
   * for everybody else, its id free again, and its rows go when the last of them has let go, or half a minute later.
   */
  remove(session: string): Promise<void>;
  /** Lets a reader that names this `ordinal` read on to the end when the session is removed; to be let go by the answer. */
  hold(ordinal: number): () => void;
  /** The sessions that are retired, whoever retired them; `remove` with the id of such a row takes the rows away. */
  retired(): Promise<SessionRow[]>;
  close(): Promise<void>;
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
  readonly spec: SessionSpec;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** The last sequence; 0 for an empty log. */
  readonly head: number;
  /** The events up to this sequence were trimmed away. */
  readonly floor: number;
  readonly epoch: number;
  readonly owner: string;
  /** Something of it may be running: set and cleared by its writer, read by recovery. */
  readonly active: boolean;
  readonly spool?: SpoolMark & { readonly checkpointOffset?: number };
  readonly snapshot?: { readonly at: number; readonly state: unknown };
}

export interface Batch {
  readonly epoch: number;
  /** The head that it follows. What follows from an append that failed fails, too, with `fenced`. */
  readonly after?: number;
  readonly time: number;
  readonly events: readonly EventDraft[];
  readonly spool?: SpoolMark;
  /** The session's fold behind this batch: a place to start folding from, never a truth of its own. */
  readonly snapshot?: unknown;
  readonly active?: boolean;
  readonly key?: { readonly key: string } & Remembered;
}

export interface Remembered {
  /** What the request was, so that another request under the same key can be refused. */
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
  /** The session of this row alone, not a later one of the same id; also when it is retired. */
  readonly ordinal?: number;
}

/** A committed event: its universal JSON text, without `raw`. Written once, shared by all readers. */
export interface StoredEvent {
  readonly sequence: number;
  readonly type: EventType;
  readonly body: string;
  /** The native line as JSON text, where it was asked for and there is one. */
  readonly raw?: string;
}
