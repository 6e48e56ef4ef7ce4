import type { Stats } from "node:fs";
import { join } from "node:path";
import type { FileChange, WatchWarning } from "./change.ts";
import { Pin, toIdentity } from "./pin.ts";
import type { Slice } from "./slice.ts";
import { Folder, Leaf, type LeafKind } from "./tree.ts";
import { toWarning, Watches } from "./watches.ts";

/** Elsewhere an event may name another file than the one that changed, or none. */
const EVENTS_NAME_FILES = process.platform === "linux";
/** From here on reading the whole folder is the cheaper way. */
const MANY_NAMES = 1_000;

export interface SurveyOptions {
  /** Without symlinks in it. */
  readonly root: string;
  readonly maxEntries: number;
  ignored(name: string, path: string): boolean;
  report(type: FileChange["type"], path: string): void;
  warn(warning: WatchWarning): void;
  /** Something must be looked at. */
  stirred(): void;
}

/** The tree as it was last seen, with a watch on every folder; looks at what stirred and reports what differs. */
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
      stirred: (folder, type, name) => this.#onEvent(folder, type, name),
      broken: (folder) => this.#mark(folder),
      warn: options.warn,
    });
  }

  get entries(): number {
    return this.#entries;
  }

  /** Whether the kernel does not watch all of it for us. */
  get hasUnwatched(): boolean {
    return this.#watches.missing.size > 0;
  }

  get isDirty(): boolean {
    return this.#dirty.size > 0;
  }

  /** The first look: what is there is known, and no news. */
  async begin(slice: Slice): Promise<void> {
    this.#mark(this.top);
    this.#silent = true;
    await this.look(slice);
    this.#silent = false;
  }

  markAll(): void {
    const stack = [this.top];
    for (let folder = stack.pop(); folder; folder = stack.pop()) {
      this.#mark(folder);
      for (const below of folder.folders.values()) stack.push(below);
    }
  }

  markUnwatched(): void {
    for (const folder of this.#watches.missing) this.#mark(folder);
  }

  /** Looks at everything that is marked now, and at the new folders in it; what is marked meanwhile is for the next time. */
  async look(slice: Slice, options: { hasty?: boolean } = {}): Promise<void> {
    this.#hasty = options.hasty ?? false;
    const stack = [...this.#dirty].toReversed();
    this.#dirty = new Set();
    for (let folder = stack.pop(); folder && !this.#closed; folder = stack.pop()) {
      try {
        for (const found of await this.#lookAt(folder, slice)) stack.push(found);
      } catch (error) {
        // One folder that cannot be read, on a broken disk or a far one, must not hide the others.
        this.#watches.missing.add(folder);
        this.#options.warn(toWarning(error));
      }
      if (slice.isOver) await slice.pause();
    }
  }

  close(): void {
    this.#closed = true;
    const stack = [this.top];
    for (let folder = stack.pop(); folder; folder = stack.pop()) {
      this.#watches.end(folder);
      folder.removed = true;
      for (const below of folder.folders.values()) stack.push(below);
    }
  }

  /** Answers the folders in it that must be looked at too. */
  async #lookAt(folder: Folder, slice: Slice): Promise<Folder[]> {
    const { dirty } = folder;
    folder.dirty = undefined;
    if (dirty === undefined || folder.removed) return [];
    const pin = Pin.open(join(this.#options.root, folder.path));
    if (typeof pin === "string") {
      this.#watches.missing.add(folder);
      // Below the top it is its parent's news.
      if (pin === "gone" && folder === this.top) this.#empty(folder);
      return [];
    }
    try {
      const changedHands = this.#watches.ensure(folder, pin);
      return await this.#compare(folder, dirty === "whole" || changedHands ? undefined : dirty, pin, slice);
    } finally {
      pin.close();
    }
  }

  async #compare(
    folder: Folder,
    stirred: ReadonlySet<string> | undefined,
    pin: Pin,
    slice: Slice,
  ): Promise<Folder[]> {
    const names = stirred ?? this.#present(folder, pin);
    if (!stirred) {
      const present = names as ReadonlySet<string>;
      for (const name of [...folder.leaves.keys(), ...folder.folders.keys()]) {
        if (!present.has(name)) this.#remove(folder, name);
      }
    }
    const toLookAt: Folder[] = [];
    for (const name of names) {
      if (slice.isOver) await slice.pause();
      if (folder.removed || this.#closed) break;
      const below = this.#compareEntry(folder, name, pin.lstat(name));
      if (below) toLookAt.push(below);
    }
    return toLookAt;
  }

  #present(folder: Folder, pin: Pin): ReadonlySet<string> {
    const { ignored } = this.#options;
    return new Set(pin.names().filter((name) => !ignored(name, folder.pathOf(name))));
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
    // Whoever has just opened a file is about to write to it: that is one change, not two.
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

  /** One name in a folder, or everything. */
  #mark(folder: Folder, name?: string): void {
    if (folder.dirty !== "whole") {
      const names = folder.dirty ?? new Set();
      folder.dirty = name === undefined || names.size >= MANY_NAMES ? "whole" : names.add(name);
    }
    this.#dirty.add(folder);
    this.#options.stirred();
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
