import type {
  EventType,
  RunCommand,
  SessionInfo,
  SessionSpec,
  SluiceEvent,
  TurnOptions,
} from "../../contract/index.ts";
import type { CheckpointInfo } from "../agent-response.ts";

/** An engine in this process, or a server. */
export interface Backend {
  open(): Promise<Link>;
}

/** An open connection to a backend. Its errors have a `code` from the table of errors. */
export interface Link {
  /** The provider's name in the backend. */
  readonly sandbox: string | undefined;
  /** Whether the provider isolates agents from this machine; a server's default provider counts as isolated. */
  readonly isolated: boolean;
  create(id: string, spec: SessionSpec): Promise<void>;
  /** Undefined for an unknown session. */
  find(id: string): Promise<SessionInfo | undefined>;
  /** Returns the turn's id; fails with `session_busy` during a run or command. */
  send(id: string, prompt: string, options: TurnOptions): Promise<string>;
  /** Returns the command's id. */
  exec(id: string, command: RunCommand): Promise<string>;
  /** Whether a run or command was interrupted. */
  interrupt(id: string): Promise<boolean>;
  terminate(id: string, options: { destroy: boolean }): Promise<void>;
  pause(id: string): Promise<void>;
  resume(id: string): Promise<void>;
  /** The address of a port of the sandbox, for programs on this machine. */
  host(id: string, port: number): Promise<string>;
  readonly files: LinkFiles;
  checkpoint(id: string, options: { comment?: string | undefined }): Promise<CheckpointInfo>;
  restore(id: string, checkpoint: string): Promise<void>;
  listCheckpoints(
    store: string | undefined,
    options: { limit?: number | undefined },
  ): Promise<CheckpointInfo[]>;
  /** At most `limit` events after the sequence `after`; with `types`, only events of these types. */
  read(
    id: string,
    page: { after: number; limit: number; types?: readonly EventType[] },
  ): Promise<readonly SluiceEvent[]>;
  /** The events after the sequence `after`, live, until the session ends or `signal` aborts. */
  follow(id: string, options: { after: number; signal: AbortSignal }): AsyncIterable<SluiceEvent>;
  /** Disconnects; runs continue. */
  close(): Promise<void>;
}

/** Paths are in-sandbox paths. */
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
  readonly version?: string;
}

/** The code of an error of the engine or of the client. */
export function codeOf(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

/** The public fields of a checkpoint that have a value. */
export function toCheckpointInfo(found: {
  [K in keyof CheckpointInfo]: CheckpointInfo[K] | undefined;
}): CheckpointInfo {
  const { id, hash, timestamp, parentId, comment, sizeBytes, agentType, model } = found;
  const known = { id, hash, timestamp, parentId, comment, sizeBytes, agentType, model };
  return Object.fromEntries(
    Object.entries(known).filter(([, value]) => value !== undefined),
  ) as unknown as CheckpointInfo;
}
