import { closeSync, constants, fstatSync, lstatSync, openSync, readdirSync, readlinkSync } from "node:fs";
import type { Stats } from "node:fs";
import { basename, join } from "node:path";

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;
const BY_DESCRIPTOR = process.platform === "linux";

/** A folder held open while it is looked at: no symlink that is swapped in on the way can lead us elsewhere. */
export class Pin {
  /** The same folder, whatever happens to its name. */
  readonly path: string;
  readonly #descriptor: number;

  private constructor(descriptor: number, path: string) {
    this.#descriptor = descriptor;
    this.path = path;
  }

  /** Opens exactly this folder; nothing where it is gone or its path leads over a symlink. */
  static open(path: string): Pin | "gone" | "closed" {
    let descriptor: number;
    try {
      descriptor = openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      return code === "ENOENT" || code === "ENOTDIR" || code === "ELOOP" ? "gone" : "closed";
    }
    if (!BY_DESCRIPTOR) return new Pin(descriptor, path);
    const pin = new Pin(descriptor, `/proc/self/fd/${descriptor}`);
    if (readlinkSync(pin.path) === path) return pin;
    pin.close();
    return "gone";
  }

  /** How events about the folder itself call it. */
  get name(): string {
    return basename(this.path);
  }

  get identity(): string {
    return toIdentity(fstatSync(this.#descriptor));
  }

  names(): string[] {
    return readdirSync(this.path);
  }

  lstat(name: string): Stats | undefined {
    try {
      return lstatSync(join(this.path, name), { throwIfNoEntry: false });
    } catch {
      // Such as a folder that may be listed but not entered.
      return undefined;
    }
  }

  close(): void {
    closeSync(this.#descriptor);
  }
}

/** Inodes are used again at once; the time of birth tells a folder from its successor. */
export function toIdentity(found: Stats): string {
  return `${found.dev}:${found.ino}:${found.birthtimeMs}`;
}
