import type { Backlog, FileChange } from "./changes.ts";
import type { Folder, Leaf } from "./tree.ts";

/** The files that a reader knows, as plain data: per folder its path, then the name and state of each file in it. */
export interface TreeSnapshot {
  readonly version: 1;
  readonly folders: readonly (readonly string[])[];
}

/** Stands for the state of a file whose last change the reader has not taken. */
const OTHER = "?";

export function toSnapshot(top: Folder, untaken: Backlog): TreeSnapshot {
  const rows = new Map<string, string[]>();
  const row = (path: string): string[] => {
    const known = rows.get(path) ?? [path];
    rows.set(path, known);
    return known;
  };
  for (const [folder, name, leaf] of eachLeaf(top)) {
    const change = untaken.get(folder.pathOf(name));
    if (change?.type === "create") continue;
    row(folder.path).push(name, change ? OTHER : toState(leaf));
  }
  for (const { type, path } of untaken.values()) {
    if (type !== "delete") continue;
    const slash = path.lastIndexOf("/");
    row(path.slice(0, Math.max(0, slash))).push(path.slice(slash + 1), OTHER);
  }
  return { version: 1, folders: [...rows.values()] };
}

/** The changes that were reported after the snapshot was taken. */
interface Reported {
  /** Whether a file has not changed since it was reported. */
  isUnchanged(path: string, timestamp: number): boolean;
  readonly changes: Iterable<FileChange>;
}

/** The changes since the snapshot, without the reported ones. */
export function findDifferences(top: Folder, snapshot: TreeSnapshot, reported: Reported): FileChange[] {
  const known = new Map<string, string | FileChange>();
  for (const [path = "", ...entries] of snapshot.folders) {
    for (let at = 0; at + 1 < entries.length; at += 2) {
      known.set(path === "" ? `${entries[at]}` : `${path}/${entries[at]}`, entries[at + 1] ?? OTHER);
    }
  }
  for (const change of reported.changes) {
    if (change.type === "delete") known.delete(change.path);
    else known.set(change.path, change);
  }
  const timestamp = Date.now();
  const created: FileChange[] = [];
  for (const [folder, name, leaf] of eachLeaf(top)) {
    const path = folder.pathOf(name);
    const before = known.get(path);
    known.delete(path);
    if (before === undefined) created.push({ type: "create", path, timestamp });
    else if (!isSame(before, leaf, reported)) created.push({ type: "change", path, timestamp });
  }
  const deleted = [...known.keys()].map((path) => ({ type: "delete" as const, path, timestamp }));
  return [...deleted, ...created];
}

function isSame(before: string | FileChange, leaf: Leaf, reported: Reported): boolean {
  if (typeof before === "string") return before === toState(leaf);
  return reported.isUnchanged(before.path, before.timestamp);
}

function toState({ kind, size, mtimeMs, ino }: Leaf): string {
  return `${kind}${[size, Math.round(mtimeMs * 1000), ino].map((field) => field.toString(36)).join(".")}`;
}

function* eachLeaf(top: Folder): Generator<[Folder, string, Leaf]> {
  const stack = [top];
  for (let folder = stack.pop(); folder; folder = stack.pop()) {
    for (const [name, leaf] of folder.leaves) yield [folder, name, leaf];
    for (const below of folder.folders.values()) stack.push(below);
  }
}
