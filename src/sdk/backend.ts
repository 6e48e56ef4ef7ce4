import type {
  EventType,
  RunCommand,
  SessionInfo,
  SessionSpec,
  SluiceEvent,
  TurnOptions,
} from "../contract/index.ts";
import type { CheckpointInfo } from "./agent-response.ts";

/** Where sessions run: an engine in this process, or a server. Opened when there is something to do. */
export interface Backend {
  open(): Promise<Link>;
}

/** An open way to it. Whatever fails has the `code` of the one table of errors. */
export interface Link {
  /** The provider by the name that it has there. */
  readonly sandbox: string | undefined;
  /** Whether that keeps agents from this machine; a server's own default counts as one that does. */
  readonly isolated: boolean;
  create(id: string, spec: SessionSpec): Promise<void>;
  /** Undefined where there is none. */
  find(id: string): Promise<SessionInfo | undefined>;
  /** Refused as `session_busy` while anything runs. Answers the turn's id. */
  send(id: string, prompt: string, options: TurnOptions): Promise<string>;
  /** Answers the command's id. */
  exec(id: string, command: RunCommand): Promise<string>;
  /** Whether there was something to end. */
  interrupt(id: string): Promise<boolean>;
  terminate(id: string, options: { destroy: boolean }): Promise<void>;
  pause(id: string): Promise<void>;
  resume(id: string): Promise<void>;
  /** An address that programs on this machine can open. */
  host(id: string, port: number): Promise<string>;
  readonly files: LinkFiles;
  checkpoint(id: string, options: { comment?: string | undefined }): Promise<CheckpointInfo>;
  restore(id: string, checkpoint: string): Promise<void>;
  shelved(shelf: string | undefined, options: { limit?: number | undefined }): Promise<CheckpointInfo[]>;
  /** Events behind `after`, at most `limit`, of these types alone where they are given. */
  read(
    id: string,
    page: { after: number; limit: number; types?: readonly EventType[] },
  ): Promise<readonly SluiceEvent[]>;
  /** Every event behind `after`, live, until the session ends or `signal` aborts. */
  follow(id: string, options: { after: number; signal: AbortSignal }): AsyncIterable<SluiceEvent>;
  /** Lets go; what runs goes on. */
  close(): Promise<void>;
}

/** Paths are those of the sandbox. */
export interface LinkFiles {
  read(id: string, path: string): Promise<Uint8Array>;
  write(id: string, path: string, content: Uint8Array): Promise<void>;
  mkdir(id: string, path: string): Promise<void>;
  list(id: string, path: string): Promise<LinkEntry[]>;
}

export interface LinkEntry {
  readonly name: string;
  readonly entryType: "file" | "directory" | "symlink" | "other";
  readonly size: number;
  readonly modified: number;
}

/** The code of an error, whichever side of the wire it comes from. */
export function codeOf(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

/** The record as programs see it: no key that has no value, and nothing of ours. */
export function toCheckpointInfo(found: {
  [K in keyof CheckpointInfo]: CheckpointInfo[K] | undefined;
}): CheckpointInfo {
  const { id, hash, timestamp, parentId, comment, sizeBytes, agentType, model } = found;
  const known = { id, hash, timestamp, parentId, comment, sizeBytes, agentType, model };
  return Object.fromEntries(
    Object.entries(known).filter(([, value]) => value !== undefined),
  ) as unknown as CheckpointInfo;
}
