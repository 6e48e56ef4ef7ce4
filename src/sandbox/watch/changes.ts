/** A change of a file or symlink. `path` is relative to the watched folder, `timestamp` in milliseconds since 1970. */
export interface FileChange {
  readonly type: "create" | "change" | "delete";
  readonly path: string;
  readonly timestamp: number;
}

/** A condition that makes watching slower or less complete; the watcher reports each reason once. */
export interface WatchWarning {
  readonly reason: "out_of_watches" | "events_lost" | "too_many_entries" | "failed";
  readonly detail: string;
}

export type FileHook = (event: FileHookEvent) => unknown;

export interface FileHooks {
  readonly onFile?: FileHook;
  readonly onFileCreate?: FileHook;
  readonly onFileChange?: FileHook;
  readonly onFileDelete?: FileHook;
}

/** The argument of a hook. `before` and `diff` are computed on request, at most once. */
export interface FileHookEvent extends FileChange {
  /** The text before the change; undefined for a new file, and where it is not known. */
  before(): Promise<string | undefined>;
  /** The text after the change; undefined for a deleted file, and for one that is too large. */
  after(): Promise<string | undefined>;
  /** The change as a unified diff; undefined where one of the texts is not known. */
  diff(): Promise<string | undefined>;
}

/** Calls the application's hooks, one change after the other. A slow or failing hook affects nothing else. */
export interface FileHookRunner {
  /** Queues the changes and returns. While hooks are slow, the queue has one change per path. */
  deliver(changes: Iterable<FileChange>): void;
  /** Resolves when the hooks were called for all delivered changes. */
  settled(): Promise<void>;
  /** No further hook is called. */
  stop(): void;
}

/**
 * Changes that were not taken yet, one per path. So there are at most as many as the tree has entries, now and at the
 * last `take`.
 */
export class Backlog {
  #changes = new Map<string, FileChange>();

  get size(): number {
    return this.#changes.size;
  }

  get(path: string): FileChange | undefined {
    return this.#changes.get(path);
  }

  values(): Iterable<FileChange> {
    return this.#changes.values();
  }

  add(change: FileChange): void {
    const { path } = change;
    const earlier = this.#changes.get(path);
    const type = earlier ? merge(earlier.type, change.type) : change.type;
    // A removed or recreated file moves to the end of the list; a written one keeps its position.
    if (change.type !== "change") this.#changes.delete(path);
    if (type !== undefined) this.#changes.set(path, { ...change, type });
  }

  take(): FileChange[] {
    const taken = [...this.#changes.values()];
    this.#changes = new Map();
    return taken;
  }
}

/** Merges two changes of one path. Undefined for a file that was created and deleted between two calls of `take`. */
function merge(first: FileChange["type"], second: FileChange["type"]): FileChange["type"] | undefined {
  if (second === "delete") return first === "create" ? undefined : "delete";
  if (first === "create") return "create";
  return "change";
}
