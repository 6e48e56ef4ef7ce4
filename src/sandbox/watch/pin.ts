import { lstatSync, type Stats } from "node:fs";
import { basename } from "node:path";
import { OpenFolder, SwappedFolder } from "../host/open-folder.ts";

/** A folder held open while it is looked at. */
export class Pin {
  readonly #folder: OpenFolder;

  private constructor(folder: OpenFolder) {
    this.#folder = folder;
  }

  /** Opens exactly this folder; nothing where it is gone or its path leads over a symlink. */
  static open(path: string): Pin | "gone" | "closed" {
    try {
      return new Pin(OpenFolder.openReal(path, { readable: true }));
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      const isGone = code === "ENOENT" || code === "ENOTDIR" || error instanceof SwappedFolder;
      return isGone || code === "ELOOP" ? "gone" : "closed";
    }
  }

  /** The same folder, whatever happens to its name. */
  get path(): string {
    return this.#folder.path;
  }

  /** How events about the folder itself call it. */
  get name(): string {
    return basename(this.path);
  }

  get identity(): string {
    return toIdentity(this.#folder.stat());
  }

  names(): string[] {
    return this.#folder.names();
  }

  lstat(name: string): Stats | undefined {
    try {
      return lstatSync(this.#folder.at(name), { throwIfNoEntry: false });
    } catch {
      // Such as a folder that may be listed but not entered.
      return undefined;
    }
  }

  close(): void {
    this.#folder.close();
  }
}

/** Inodes are used again at once; the time of birth tells a folder from its successor. */
export function toIdentity(found: Stats): string {
  return `${found.dev}:${found.ino}:${found.birthtimeMs}`;
}
