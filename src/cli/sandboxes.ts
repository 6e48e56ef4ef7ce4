import type { Checkpoint } from "../client/index.ts";
import type { FileEntry } from "../sandbox/port.ts";

/** The sandboxes of sessions, reached through a server or through the data folder itself. */
export interface Sandboxes {
  /** For people: the URL or the folder. */
  readonly where: string;
  has(session: string): Promise<boolean>;
  files(session: string): SessionFiles;
  /** Newest first. */
  checkpoints(session: string, options: { limit?: number | undefined }): Promise<Checkpoint[]>;
  checkpoint(session: string, options: { comment?: string | undefined }): Promise<Checkpoint>;
  restore(session: string, checkpoint: string): Promise<Checkpoint>;
  /** Nothing that was started for this stays behind. */
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
