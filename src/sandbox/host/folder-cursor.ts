import { OpenFolder } from "./open-folder.ts";

/** Each level holds a descriptor. */
const MOST_HELD = 64;

/**
 * Opens folders below an open one by their relative paths, name by name and over no symlink. Those that led to the last one
 * stay open, for the next is mostly near.
 */
export class FolderCursor {
  readonly #top: OpenFolder;
  readonly #held: { readonly name: string; readonly folder: OpenFolder }[] = [];
  /** The last one, where it lies deeper than folders are held. */
  #deep: OpenFolder | undefined;

  /** `top` stays its caller's. */
  constructor(top: OpenFolder) {
    this.#top = top;
  }

  /** The folder of a relative path, "" for the top; it stays open until the next one is asked for. */
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

  /** The open folder that an entry is in, and the entry's name. */
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
