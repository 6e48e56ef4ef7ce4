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

/**
 * Changes that were not taken yet. One per path, so there are never more than the entries that the tree had at the last
 * `take` and has now, together.
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
