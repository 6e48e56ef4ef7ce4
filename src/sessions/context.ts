import type { SessionDeps } from "./deps.ts";
import type { Drafts } from "./fold/drafts.ts";
import type { CommitExtra, SessionWriter } from "./fold/writer.ts";
import type { Checkpointer } from "./sandbox/checkpoint.ts";

/** A session as its parts use it. */
export interface SessionContext {
  readonly deps: SessionDeps;
  readonly writer: SessionWriter;
  readonly checkpointer: Checkpointer;
  readonly isClosed: () => boolean;
  /** Whether the lock is held or waited for. */
  readonly isBusy: () => boolean;
  /** Runs the task under the lock, in the order of the calls. */
  exclusive<T>(task: () => Promise<T>): Promise<T>;
  /** Appends, then acts on the events. Call it under the lock. */
  commit(drafts: Drafts, extra?: CommitExtra): Promise<void>;
  /** Runs a task whose failure gives the session up. */
  inBackground(task: Promise<unknown>): void;
  giveUp(error: unknown): void;
}
