import type { FSWatcher, Stats } from "node:fs";

/** What is known of a file or symlink. */
export class Leaf {
  readonly size: number;
  readonly mtimeMs: number;
  readonly ino: number;
  readonly kind: LeafKind;
  /** Written so shortly before it was looked at that one more write may have left no trace in its times. */
  readonly fresh: boolean;
  /** Written to since, says the kernel. */
  touched = false;

  constructor(found: Stats, kind: LeafKind, lookedAt: number) {
    this.size = found.size;
    this.mtimeMs = found.mtimeMs;
    this.ino = found.ino;
    this.kind = kind;
    this.fresh = lookedAt - found.mtimeMs < CLOCK_TICK_MS;
  }

  /** Empty, and has not been for long. */
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

/** File, executable file, symlink. */
export type LeafKind = "f" | "x" | "l";

/** The coarsest tick that file times are taken by. */
export const CLOCK_TICK_MS = 12;

/** What is known of a folder, and what of it must be looked at. */
export class Folder {
  readonly name: string;
  readonly parent: Folder | undefined;
  readonly path: string;
  readonly leaves = new Map<string, Leaf>();
  readonly folders = new Map<string, Folder>();
  watcher: FSWatcher | undefined;
  /** Names that stirred, or everything. */
  dirty: Set<string> | "whole" | undefined;
  /** What the kernel calls the watched folder in events about itself. */
  self = "";
  /** The folder that is watched, by inode and time of birth: another one may have its name by now. */
  identity = "";
  /** The kernel said that the watched folder itself went away. */
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
