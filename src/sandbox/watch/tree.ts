import type { FSWatcher, Stats } from "node:fs";
import { splitPath } from "../host/files/open-folder.ts";
import type { Backlog, FileChange } from "./changes.ts";

/** The known state of a file or symlink. */
export class Leaf {
  readonly size: number;
  readonly mtimeMs: number;
  readonly ino: number;
  readonly kind: LeafKind;
  /** Whether the last write was so recent that another one could leave the same times. */
  readonly fresh: boolean;
  /** Whether the kernel has reported a write since this state was read. */
  touched = false;

  constructor(found: Stats, kind: LeafKind, lookedAt: number) {
    this.size = found.size;
    this.mtimeMs = found.mtimeMs;
    this.ino = found.ino;
    this.kind = kind;
    this.fresh = lookedAt - found.mtimeMs < CLOCK_TICK_MS;
  }

  /** Whether a program has just created or emptied the file. */
  get isBlank(): boolean {
    return this.size === 0 && this.fresh && this.kind !== "l";
  }

  equals(other: Leaf): boolean {
    return (
      this.mtimeMs === other.mtimeMs &&
      this.size === other.size &&
      this.ino === other.ino &&
      this.kind === other.kind
    );
  }
}

/** A file, an executable file, or a symlink. */
export type LeafKind = "f" | "x" | "l";

/** The coarsest resolution of file times. */
export const CLOCK_TICK_MS = 12;

/** The known state of a folder, and the names in it to compare again. */
export class Folder {
  readonly name: string;
  readonly parent: Folder | undefined;
  readonly path: string;
  readonly leaves = new Map<string, Leaf>();
  readonly folders = new Map<string, Folder>();
  watcher: FSWatcher | undefined;
  /** The names to compare again, or all of them. */
  dirty: Set<string> | "whole" | undefined;
  /** The kernel's name for the watched folder in events about itself. */
  self = "";
  /** The inode and birth time of the watched folder: another folder may have its name by now. */
  identity = "";
  /** Whether the kernel has reported that the watched folder itself was moved or removed. */
  unsure = false;
  removed = false;

  constructor(name: string, parent?: Folder) {
    this.name = name;
    this.parent = parent;
    this.path = parent ? parent.pathOf(name) : "";
  }

  pathOf(name: string): string {
    return this.path === "" ? name : `${this.path}/${name}`;
  }
}

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
    const { parent, name } = splitPath(path);
    row(parent).push(name, OTHER);
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
  for (const folder of eachFolder(top)) {
    for (const [name, leaf] of folder.leaves) yield [folder, name, leaf];
  }
}

/** A folder and all folders below it. */
export function* eachFolder(top: Folder): Generator<Folder> {
  const stack = [top];
  for (let folder = stack.pop(); folder; folder = stack.pop()) {
    yield folder;
    for (const below of folder.folders.values()) stack.push(below);
  }
}
