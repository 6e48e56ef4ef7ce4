import type { CheckpointChange, CheckpointEntry } from "../../contract/index.ts";
import type { Owner } from "../port.ts";
import type { BundleTarget, CheckpointBundle } from "./bundle-port.ts";

/** The storage of checkpoints: bytes by key. A key has the characters of a URL path. */
export interface CheckpointStorage {
  /** Stores the bytes atomically: no reader sees a part of them. */
  put(key: string, bytes: Uint8Array): Promise<void>;
  /** False where the key exists; its bytes stay. */
  putIfAbsent(key: string, bytes: Uint8Array): Promise<boolean>;
  get(key: string): Promise<Uint8Array | undefined>;
  has(key: string): Promise<boolean>;
  /** Every key with this prefix, in order. */
  list(prefix: string): Promise<string[]>;
  /** A missing key is no error. */
  delete(key: string): Promise<void>;
  /** The host folder of the storage, which no checkpoint may hold. */
  readonly folder?: string;
}

export interface CheckpointInfo {
  readonly id: string;
  /** The sha256 of the manifest: equal trees have equal hashes. */
  readonly hash: string;
  /** ISO 8601. */
  readonly timestamp: string;
  readonly parentId?: string | undefined;
  readonly comment?: string | undefined;
  /** The size of all files, uncompressed. */
  readonly sizeBytes: number;
  readonly agentType?: string | undefined;
  readonly model?: string | undefined;
  readonly sessionId?: string | undefined;
  /** The agent's own id of the session that it can resume from these files. */
  readonly nativeSessionId?: string | undefined;
}

export interface CheckpointQuery {
  readonly limit?: number | undefined;
  readonly sessionId?: string | undefined;
  /** The last checkpoint of the page before. */
  readonly before?: string | undefined;
}

/** Host folders by name; `workspace` and `home` have excludes and credentials of their own. */
export type CheckpointRoots = Readonly<Record<string, string>>;

/** Patterns by the name of a root; those under `*` hold for all. */
export type CheckpointExcludes = Readonly<Record<string, readonly string[]>>;

export interface CheckpointProgress {
  readonly files: number;
  readonly bytes: number;
  /** How many files there are, once that is known. */
  readonly total?: number;
}

interface LongTask {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: CheckpointProgress) => void) | undefined;
}

export interface CheckpointOptions extends LongTask {
  readonly roots: CheckpointRoots;
  readonly parentId?: string | undefined;
  readonly comment?: string | undefined;
  readonly agent?: string | undefined;
  readonly model?: string | undefined;
  readonly sessionId?: string | undefined;
  readonly nativeSessionId?: string | undefined;
  /** Replaces `DEFAULT_EXCLUDES`. Credentials are always left out. */
  readonly exclude?: CheckpointExcludes | undefined;
}

export interface CheckpointTaken {
  readonly info: CheckpointInfo;
  readonly work: {
    /** Files of the trees, and the number of files read. */
    readonly files: number;
    readonly filesRead: number;
    readonly bytesRead: number;
    readonly objectsWritten: number;
    readonly bytesWritten: number;
  };
  /** Entries that could not be read, as `root/path`; a restore leaves them alone. */
  readonly unread: readonly string[];
}

export interface RestoreOptions extends LongTask {
  /** Roots that the checkpoint does not have are left alone. */
  readonly roots: CheckpointRoots;
  /** For the id `latest`: the newest of this session instead of the newest of all. */
  readonly sessionId?: string | undefined;
  /**
   * The owner of new files. By default a server that runs as root takes the owner of each root's folder; any other is
   * the owner itself.
   */
  readonly owner?: Owner | undefined;
}

export interface CheckpointRestored {
  readonly info: CheckpointInfo;
  readonly work: {
    readonly files: number;
    readonly filesRead: number;
    readonly filesWritten: number;
    readonly bytesWritten: number;
    readonly removed: number;
    readonly objectsRead: number;
  };
}

export interface Checkpoints {
  checkpoint(options: CheckpointOptions): Promise<CheckpointTaken>;
  /** Takes in a checkpoint that another machine made of its own folders. */
  adopt(bundle: CheckpointBundle, options: Omit<CheckpointOptions, "roots">): Promise<CheckpointTaken>;
  /** Restores a checkpoint on another machine. */
  send(id: string, target: BundleTarget): Promise<CheckpointInfo>;
  /** Restores the folders by difference. No other process may write to them meanwhile. */
  restore(id: string, options: RestoreOptions): Promise<CheckpointRestored>;
  /** Newest first; 100 unless a limit is given. */
  list(options?: CheckpointQuery): Promise<CheckpointInfo[]>;
  /** `latest` is the newest of the session, or of all. */
  get(id: string, options?: { sessionId?: string | undefined }): Promise<CheckpointInfo | undefined>;
  /** The files of a checkpoint, read in the storage. Undefined where there is no such checkpoint. */
  contents(id: string, options?: { sessionId?: string | undefined }): Promise<CheckpointContents | undefined>;
  /** A checkpoint and its ancestors, newest first. */
  lineage(id: string): Promise<CheckpointInfo[]>;
  /** Removes the record; `gc` frees the space later. False where there is no such checkpoint. */
  remove(id: string): Promise<boolean>;
  /**
   * Marks objects that no checkpoint needs, and deletes those that were marked `graceMs` ago (an hour by default). With 0
   * it deletes all at once, which is only for a storage that no other process uses. No server calls it.
   */
  gc(options?: { graceMs?: number | undefined; signal?: AbortSignal | undefined }): Promise<Collected>;
}

/** The workspace of a checkpoint. Paths are relative to the workspace, or absolute in the sandbox. */
export interface CheckpointContents {
  readonly info: CheckpointInfo;
  /** The entries of a folder, in the order of their paths. */
  list(
    path: string,
    page: CheckpointPageQuery & { recursive: boolean },
  ): { entries: CheckpointEntry[]; next?: string };
  /** A file's bytes. Links are not followed. */
  open(path: string): { size: number; content: AsyncIterable<Uint8Array> };
  /** The files and links that another checkpoint of the same storage has differently. */
  changes(
    to: CheckpointContents,
    page: CheckpointPageQuery & { path?: string | undefined },
  ): { changes: CheckpointChange[]; next?: string };
  /** The same as a unified diff, file by file. */
  diff(to: CheckpointContents, options?: { path?: string | undefined }): AsyncIterable<string>;
}

export interface CheckpointPageQuery {
  readonly limit: number;
  readonly cursor?: string | undefined;
}

export interface Collected {
  readonly deleted: number;
  readonly marked: number;
  /** The number of packs whose pieces were mostly unneeded; the needed ones were written to new packs. */
  readonly repacked: number;
}
