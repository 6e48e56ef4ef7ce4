import type { OpenFolder } from "./open-folder.ts";

/** The levels that are held open, each by a descriptor. */
const MOST_HELD = 64;

/**
 * Opens folders below an open one by their relative paths, name by name and through no symlink. The parents of the last
 * folder stay open, because the next folder is mostly near it.
 */
export class FolderCursor {
  readonly #top: OpenFolder;
  readonly #held: { readonly name: string; readonly folder: OpenFolder }[] = [];
  /** The last folder, if it lies deeper than `MOST_HELD`. */
  #deep: OpenFolder | undefined;

  /** The caller closes `top`. */
  constructor(top: OpenFolder) {
    this.#top = top;
  }

  /** The folder of a relative path, "" for the top; it stays open until the next call. */
  open(path: string): OpenFolder {
    const names = path === "" ? [] : path.split("/");
    const held = names.slice(0, MOST_HELD);
    const shared = held.findIndex((name, level) => this.#held[level]?.name !== name);
    this.#release(shared === -1 ? held.length : shared);
    for (const name of held.slice(this.#held.length)) {
      this.#held.push({ name, folder: this.#last.open(name) });
    }
    for (const name of names.slice(MOST_HELD)) {
      const next = (this.#deep ?? this.#last).open(name);
      this.#deep?.close();
      this.#deep = next;
    }
    return this.#deep ?? this.#last;
  }

  /** The open folder of an entry, and the entry's name. */
  entry(path: string): { folder: OpenFolder; name: string } {
    const cut = path.lastIndexOf("/");
    return { folder: this.open(path.slice(0, Math.max(0, cut))), name: path.slice(cut + 1) };
  }

  close(): void {
    this.#release(0);
  }

  get #last(): OpenFolder {
    return this.#held.at(-1)?.folder ?? this.#top;
  }

  #release(levels: number): void {
    this.#deep?.close();
    this.#deep = undefined;
    for (const { folder } of this.#held.splice(levels)) folder.close();
  }
}
