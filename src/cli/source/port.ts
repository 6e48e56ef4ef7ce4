import type { Checkpoint } from "../../client/index.ts";
import type { EventOf, SessionInfo, SessionSpec, StatusFilter, UsageReport } from "../../contract/index.ts";
import type { StoredEventText } from "../../dialects/port.ts";
import type { UsageQuery } from "../../sessions/fold/usage-report.ts";
import type { FileEntry } from "../../sandbox/port.ts";

/** A source of sessions: a server or the data folder. */
export interface Source {
  /** The URL or the folder, for messages. */
  readonly where: string;
  /** Newest first. */
  sessions(filter?: SessionFilter): AsyncIterable<SessionInfo>;
  info(session: string): Promise<SessionInfo>;
  usage(query: UsageQuery): Promise<UsageReport>;
  /** The events so far. */
  read(session: string, options: { after: number }): AsyncIterable<StoredEventText>;
  /** The events so far and live, until the session ends or is deleted, or `signal` aborts. */
  follow(session: string, options: { after: number; signal: AbortSignal }): AsyncIterable<StoredEventText>;
  close(): Promise<void>;
}

export interface SessionFilter {
  readonly status?: StatusFilter | undefined;
  readonly agent?: string | undefined;
}

/** Commands on sessions, through a server or through an engine of this process. */
export interface Controls extends Pick<Source, "where" | "sessions" | "info" | "follow"> {
  /** Whether a server has the sessions, so that they outlive this process. */
  readonly isServer: boolean;
  create(session: string, spec: SessionSpec): Promise<void>;
  /** Returns the turn, and the sequence before its first event. */
  send(session: string, prompt: string): Promise<{ turnId: string; after: number }>;
  /** Returns the interrupted turn or command. */
  interrupt(session: string): Promise<{ turnId?: string; commandId?: string }>;
  terminate(session: string): Promise<void>;
  answer(session: string, action: string, answer: Answer): Promise<void>;
  /** The `turn.started` events after the sequence `after`. */
  turnStarts(session: string, options: { after: number }): AsyncIterable<Pick<StoredEventText, "sequence">>;
  /** Whether the session ends with this turn. Its `session.ended` comes after the agent's exit. */
  isEnding(session: string, end: EventOf<"turn.ended">["data"]): Promise<boolean>;
  /** Ends the engine, if one was started for this object. */
  close(): Promise<void>;
}

/** The answer to a request of an agent. */
export type Answer =
  | {
      readonly kind: "permission";
      readonly reply: "once" | "always" | "reject";
      /** For the agent, with a rejection. */
      readonly message?: string | undefined;
    }
  /** Without a text the question is rejected. */
  | { readonly kind: "question"; readonly text: string | undefined; readonly message?: string | undefined }
  | { readonly kind: "tool"; readonly output: string; readonly isError: boolean };

/** The sandboxes of sessions, through a server or through an engine on the data folder. */
export interface Sandboxes {
  /** The URL or the folder, for messages. */
  readonly where: string;
  has(session: string): Promise<boolean>;
  files(session: string): SessionFiles;
  /** Newest first. */
  checkpoints(session: string, options: { limit?: number | undefined }): Promise<Checkpoint[]>;
  checkpoint(session: string, options: { comment?: string | undefined }): Promise<Checkpoint>;
  restore(session: string, checkpoint: string): Promise<Checkpoint>;
  move(session: string, sandbox: string): Promise<SessionInfo>;
  /** Ends the engine, if one was started for this object. */
  close(): Promise<void>;
}

/** Paths are in-sandbox paths, absolute or relative to the workspace. */
export interface SessionFiles {
  stat(path: string): Promise<FileEntry>;
  list(path: string): Promise<FileEntry[]>;
  read(path: string): Promise<AsyncIterable<Uint8Array>>;
  write(path: string, content: AsyncIterable<Uint8Array>): Promise<void>;
  mkdir(path: string): Promise<void>;
}
