import type { Checkpoint } from "../../client/index.ts";
import type { SessionInfo } from "../../contract/index.ts";
import type { StoredEventText } from "../../dialects/port.ts";
import type { FileEntry } from "../../sandbox/port.ts";

/** A source of sessions: a server or the data folder. */
export interface Source {
  /** The URL or the folder, for messages. */
  readonly where: string;
  sessions(): AsyncIterable<SessionInfo>;
  info(session: string): Promise<SessionInfo>;
  /** The events so far. */
  read(session: string, options: { after: number }): AsyncIterable<StoredEventText>;
  /** The events so far and live, until the session ends or is deleted, or `signal` aborts. */
  follow(session: string, options: { after: number; signal: AbortSignal }): AsyncIterable<StoredEventText>;
  close(): Promise<void>;
}

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
