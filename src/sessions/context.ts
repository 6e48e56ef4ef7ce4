import type { SessionDeps } from "./deps.ts";
import type { Drafts } from "./drafts.ts";
import type { Keeper } from "./keeper.ts";
import type { CommitExtra, SessionWriter } from "./writer.ts";

/** What the parts of a session may do with it. */
export interface SessionContext {
  readonly deps: SessionDeps;
  readonly writer: SessionWriter;
  readonly keeper: Keeper;
  readonly isClosed: () => boolean;
  /** Whether something holds the lock or waits for it. */
  readonly isBusy: () => boolean;
  /** One at a time, in the order of asking. */
  exclusive<T>(task: () => Promise<T>): Promise<T>;
  /** First the log, then the world; call it under the lock. */
  commit(drafts: Drafts, extra?: CommitExtra): Promise<void>;
  /** A task whose failure gives the session up. */
  inBackground(task: Promise<unknown>): void;
  giveUp(error: unknown): void;
}
