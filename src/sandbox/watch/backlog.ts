import type { FileChange } from "./change.ts";

/** Changes that nobody has taken yet, one per path: it never grows beyond the tree that it speaks of. */
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
    const type = earlier ? toSum(earlier.type, change.type) : change.type;
    // A file that goes or comes back takes its place among what happened since; one that is written to keeps it.
    if (change.type !== "change") this.#changes.delete(path);
    if (type !== undefined) this.#changes.set(path, { ...change, type });
  }

  take(): FileChange[] {
    const taken = [...this.#changes.values()];
    this.#changes = new Map();
    return taken;
  }
}

/** Two changes of one path as one; nothing, where the reader never knew the file. */
function toSum(first: FileChange["type"], second: FileChange["type"]): FileChange["type"] | undefined {
  if (second === "delete") return first === "create" ? undefined : "delete";
  if (first === "create") return "create";
  return "change";
}
