import type { FSWatcher, Stats } from "node:fs";

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
