/** Where checkpoints are kept: named bytes, nothing more. A key has the letters of a URL path. */
export interface CheckpointStorage {
  /** All of it or nothing: no reader ever sees a half. */
  put(key: string, bytes: Uint8Array): Promise<void>;
  /** False where the key is there already; its bytes stay. */
  putIfAbsent(key: string, bytes: Uint8Array): Promise<boolean>;
  get(key: string): Promise<Uint8Array | undefined>;
  has(key: string): Promise<boolean>;
  /** Every key that starts so, in order. */
  list(prefix: string): Promise<string[]>;
  /** No error where there is none. */
  delete(key: string): Promise<void>;
  /** The host folder that it lies in, which no checkpoint may hold. */
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
  /** Of all files together, as they lie in the folders. */
  readonly sizeBytes: number;
  readonly agentType?: string | undefined;
  readonly model?: string | undefined;
  readonly sessionId?: string | undefined;
  /** What the agent calls the session that it can resume from these files. */
  readonly nativeSessionId?: string | undefined;
}

/** Host folders by name; `workspace` and `home` are the ones that excludes and credentials know. */
export type CheckpointRoots = Readonly<Record<string, string>>;

/** Patterns by the name of a root; those under `*` hold for all. */
export type CheckpointExcludes = Readonly<Record<string, readonly string[]>>;

export interface CheckpointProgress {
  readonly files: number;
  readonly bytes: number;
  /** How many files there are, once that is known. */
  readonly total?: number;
}

interface Watched {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: CheckpointProgress) => void) | undefined;
}

export interface CheckpointOptions extends Watched {
  readonly roots: CheckpointRoots;
  readonly parentId?: string | undefined;
  readonly comment?: string | undefined;
  readonly agent?: string | undefined;
  readonly model?: string | undefined;
  readonly sessionId?: string | undefined;
  readonly nativeSessionId?: string | undefined;
  /** Instead of `DEFAULT_EXCLUDES`. Credentials are left out whatever it says. */
  readonly exclude?: CheckpointExcludes | undefined;
}

export interface CheckpointTaken {
  readonly info: CheckpointInfo;
  readonly work: {
    /** Files of the trees, and how many of them had to be read. */
    readonly files: number;
    readonly filesRead: number;
    readonly bytesRead: number;
    readonly objectsWritten: number;
    readonly bytesWritten: number;
  };
  /** What is there and could not be read, as `root/path`; a restore leaves it alone. */
  readonly unread: readonly string[];
}

export interface RestoreOptions extends Watched {
  /** Roots that the checkpoint does not have are left alone. */
  readonly roots: CheckpointRoots;
  /** For the id `latest`: the newest of this session instead of the newest of all. */
  readonly sessionId?: string | undefined;
  /** Who owns what is made. Root gives it to the owner of the root folder by default. */
  readonly owner?: { readonly uid: number; readonly gid: number } | undefined;
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
  /** Makes the folders what they were, by difference. Nobody else may write to them meanwhile. */
  restore(id: string, options: RestoreOptions): Promise<CheckpointRestored>;
  /** Newest first; 100 of them unless told otherwise. */
  list(options?: { limit?: number | undefined; sessionId?: string | undefined }): Promise<CheckpointInfo[]>;
  /** `latest` is the newest of the session, or of all. */
  get(id: string, options?: { sessionId?: string | undefined }): Promise<CheckpointInfo | undefined>;
  /** A checkpoint and what it came from, newest first. */
  lineage(id: string): Promise<CheckpointInfo[]>;
  /** Forgets it; `gc` gives the space back. False where there is none. */
  remove(id: string): Promise<boolean>;
  /** What no checkpoint needs is marked, and deleted once it was marked for `graceMs` (an hour). */
  gc(options?: { graceMs?: number | undefined; signal?: AbortSignal | undefined }): Promise<Collected>;
}

export interface Collected {
  readonly deleted: number;
  readonly marked: number;
  /** Packs that were mostly dead, written anew with what lives. */
  readonly repacked: number;
}
