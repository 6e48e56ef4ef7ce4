import type { Stats } from "node:fs";
import { join } from "node:path";
import { isGone, OpenFolder } from "../host/files/open-folder.ts";
import type { Slice } from "../host/time-slice.ts";
import type { FileChange, WatchWarning } from "./changes.ts";
import { eachFolder, Folder, Leaf, type LeafKind } from "./tree.ts";
import { toIdentity, toWarning, Watches } from "./watches.ts";

/** Whether an event names the changed file. On other systems it may name another file, or none. */
const EVENTS_NAME_FILES = process.platform === "linux";
/** With more names than this, reading the whole folder is cheaper. */
const MANY_NAMES = 1_000;

interface SurveyOptions {
  /** The watched folder, by a path without symlinks. */
  readonly root: string;
  readonly maxEntries: number;
  ignored(name: string, path: string): boolean;
  report(type: FileChange["type"], path: string): void;
  warn(warning: WatchWarning): void;
  /** A folder was marked, so a call of `look` is due. */
  onMarked(): void;
}

/** The known tree, with a watch on every folder. Compares marked folders with the disk and reports differences. */
export class Survey {
  readonly top = new Folder("");
  readonly #options: SurveyOptions;
  readonly #watches: Watches;
  #dirty = new Set<Folder>();
  #entries = 0;
  #silent = false;
  #hasty = false;
  #closed = false;

  constructor(options: SurveyOptions) {
    this.#options = options;
    this.#watches = new Watches({
      onEvent: (folder, type, name) => this.#onEvent(folder, type, name),
      onBroken: (folder) => this.#mark(folder),
      warn: options.warn,
    });
  }

  get entries(): number {
    return this.#entries;
  }

  get hasUnwatched(): boolean {
    return this.#watches.missing.size > 0;
  }

  get isDirty(): boolean {
    return this.#dirty.size > 0;
  }

  /** Reads the tree for the first time: existing files are not reported. */
  async begin(slice: Slice): Promise<void> {
    this.#mark(this.top);
    this.#silent = true;
    await this.look(slice);
    this.#silent = false;
  }

  markAll(): void {
    for (const folder of eachFolder(this.top)) this.#mark(folder);
  }

  markUnwatched(): void {
    for (const folder of this.#watches.missing) this.#mark(folder);
  }

  /** Compares all marked folders, and new folders in them. Marks that are set meanwhile wait for the next call. */
  async look(slice: Slice, options: { hasty?: boolean } = {}): Promise<void> {
    this.#hasty = options.hasty ?? false;
    const stack = [...this.#dirty].toReversed();
    this.#dirty = new Set();
    for (let folder = stack.pop(); folder && !this.#closed; folder = stack.pop()) {
      try {
        for (const found of await this.#lookAt(folder, slice)) stack.push(found);
      } catch (error) {
        // An unreadable folder, on a broken or remote disk, must not hide the others.
        this.#watches.missing.add(folder);
        this.#options.warn(toWarning(error));
      }
      if (slice.isOver) await slice.pause();
    }
  }

  close(): void {
    this.#closed = true;
    for (const folder of eachFolder(this.top)) {
      this.#watches.end(folder);
      folder.removed = true;
    }
  }

  /** Compares one folder; returns the folders in it that must be compared, too. */
  async #lookAt(folder: Folder, slice: Slice): Promise<Folder[]> {
    const { dirty } = folder;
    folder.dirty = undefined;
    if (dirty === undefined || folder.removed) return [];
    const open = this.#open(folder);
    if (open === undefined) return [];
    try {
      const isReplaced = this.#watches.ensure(folder, open);
      return await this.#compare(folder, dirty === "whole" || isReplaced ? undefined : dirty, open, slice);
    } finally {
      open.close();
    }
  }

  #open(folder: Folder): OpenFolder | undefined {
    try {
      return OpenFolder.openReal(join(this.#options.root, folder.path), { readable: true });
    } catch (error) {
      this.#watches.missing.add(folder);
      // A missing folder below the top is reported by its parent.
      if (isGone(error) && folder === this.top) this.#empty(folder);
      return undefined;
    }
  }

  async #compare(
    folder: Folder,
    changed: ReadonlySet<string> | undefined,
    open: OpenFolder,
    slice: Slice,
  ): Promise<Folder[]> {
    const names = changed ?? this.#present(folder, open);
    if (!changed) {
      const present = names as ReadonlySet<string>;
      for (const name of [...folder.leaves.keys(), ...folder.folders.keys()]) {
        if (!present.has(name)) this.#remove(folder, name);
      }
    }
    const toLookAt: Folder[] = [];
    for (const name of names) {
      if (slice.isOver) await slice.pause();
      if (folder.removed || this.#closed) break;
      const below = this.#compareEntry(folder, name, open.find(name));
      if (below) toLookAt.push(below);
    }
    return toLookAt;
  }

  #present(folder: Folder, open: OpenFolder): ReadonlySet<string> {
    const { ignored } = this.#options;
    return new Set(open.names().filter((name) => !ignored(name, folder.pathOf(name))));
  }

  #compareEntry(folder: Folder, name: string, found: Stats | undefined): Folder | undefined {
    if (found?.isDirectory()) {
      this.#removeLeaf(folder, name);
      return this.#compareFolder(folder, name, found);
    }
    const kind = found && toKind(found);
    if (!found || !kind) {
      this.#remove(folder, name);
      return undefined;
    }
    this.#removeFolder(folder, name);
    const leaf = new Leaf(found, kind, Date.now());
    const known = folder.leaves.get(name);
    // A program that has just created a file is about to write to it. That is reported as one change, not two.
    if (this.#hasty && leaf.isBlank && !known?.isBlank) {
      this.#mark(folder, name);
      return undefined;
    }
    if (!known && !this.#admits()) return undefined;
    folder.leaves.set(name, leaf);
    if (!known) this.#report("create", folder.pathOf(name));
    else if (known.touched || !known.equals(leaf)) this.#report("change", folder.pathOf(name));
    return undefined;
  }

  #compareFolder(folder: Folder, name: string, found: Stats): Folder | undefined {
    let below = folder.folders.get(name);
    if (below?.watcher && !below.unsure && below.identity === toIdentity(found)) return undefined;
    if (!below) {
      if (!this.#admits()) return undefined;
      below = new Folder(name, folder);
      folder.folders.set(name, below);
    }
    below.dirty = "whole";
    return below;
  }

  #admits(): boolean {
    if (this.#entries >= this.#options.maxEntries) {
      const detail = `There are more than ${this.#options.maxEntries} files and folders; those beyond are not watched.`;
      this.#options.warn({ reason: "too_many_entries", detail });
      return false;
    }
    this.#entries += 1;
    return true;
  }

  #remove(folder: Folder, name: string): void {
    this.#removeLeaf(folder, name);
    this.#removeFolder(folder, name);
  }

  #removeLeaf(folder: Folder, name: string): void {
    if (!folder.leaves.delete(name)) return;
    this.#entries -= 1;
    this.#report("delete", folder.pathOf(name));
  }

  #removeFolder(folder: Folder, name: string): void {
    const below = folder.folders.get(name);
    if (!below) return;
    folder.folders.delete(name);
    this.#entries -= 1;
    below.removed = true;
    this.#watches.end(below);
    this.#empty(below);
  }

  #empty(folder: Folder): void {
    for (const name of folder.leaves.keys()) this.#removeLeaf(folder, name);
    for (const name of folder.folders.keys()) this.#removeFolder(folder, name);
  }

  #onEvent(folder: Folder, type: string, name: string | null): void {
    if (folder.removed) return;
    if (name === null || !EVENTS_NAME_FILES) {
      this.#mark(folder);
      return;
    }
    if (type === "rename" && name === folder.self) {
      folder.unsure = true;
      if (folder.parent) this.#mark(folder.parent, folder.name);
      else this.#mark(folder);
    }
    if (this.#options.ignored(name, folder.pathOf(name))) return;
    const leaf = folder.leaves.get(name);
    if (leaf?.fresh) leaf.touched = true;
    this.#mark(folder, name);
  }

  /** Marks one name in a folder, or the whole folder. */
  #mark(folder: Folder, name?: string): void {
    if (folder.dirty !== "whole") {
      const names = folder.dirty ?? new Set();
      folder.dirty = name === undefined || names.size >= MANY_NAMES ? "whole" : names.add(name);
    }
    this.#dirty.add(folder);
    this.#options.onMarked();
  }

  #report(type: FileChange["type"], path: string): void {
    if (!this.#silent) this.#options.report(type, path);
  }
}

function toKind(found: Stats): LeafKind | undefined {
  if (found.isSymbolicLink()) return "l";
  if (!found.isFile()) return undefined;
  return (found.mode & 0o111) === 0 ? "f" : "x";
}
