import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  existsSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readlinkSync,
  symlinkSync,
  type Stats,
} from "node:fs";
import type { Owner } from "../../port.ts";

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;

/** Whether an entry of an open folder can be named by the folder's descriptor. */
export const BY_DESCRIPTOR: boolean = process.platform === "linux" && existsSync("/proc/self/fd");
/**
 * The flag that holds a file without opening it: it needs no right to read, a pipe does not wait, a device does nothing.
 * Node has no name for it.
 */
export const O_PATH = BY_DESCRIPTOR ? 0o10000000 : 0;

/** A folder, or one of its parents, has become a symlink. */
export class SwappedFolder extends Error {
  readonly code = "ELOOP";

  constructor(path: string) {
    super(`${path} was replaced by a link`);
    this.name = "SwappedFolder";
  }
}

/** The uid of a sandbox's files on this host. */
export function ownerUid(owner: Owner | undefined): number | undefined {
  return owner?.uid ?? process.geteuid?.();
}

/** Whether the mode gives a user a right: to read (4), to write (2), or to execute or enter (1). */
export function hasRight({ uid, gid, mode }: Stats, user: Owner, right: number): boolean {
  const shift = uid === user.uid ? 6 : gid === user.gid ? 3 : 0;
  return ((mode >> shift) & right) !== 0;
}

/** Whether a folder could not be opened because it is gone, or because its path has a symlink. */
export function isGone(error: unknown): boolean {
  return ["ENOENT", "ENOTDIR", "ELOOP"].includes((error as NodeJS.ErrnoException).code ?? "");
}

/**
 * A folder that is held open. All work on a tree that an agent can change goes through open folders, one name at a
 * time: a name in an open folder leads nowhere else, even when the folder's own path is replaced meanwhile.
 */
export class OpenFolder {
  /** Leads to this folder, even after its name was moved or replaced. */
  readonly path: string;
  readonly fd: number;

  private constructor(fd: number, path: string) {
    this.fd = fd;
    this.path = BY_DESCRIPTOR ? `/proc/self/fd/${fd}` : path;
  }

  /** Opens the folder of a path; a path with a symlink in it is refused. */
  static openReal(path: string, options: { readable?: boolean } = {}): OpenFolder {
    const how = options.readable ? O_NONBLOCK : O_PATH;
    const folder = new OpenFolder(openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | how), path);
    // The link of the descriptor is the real path of the folder: another path means a symlink on the way.
    if (!BY_DESCRIPTOR || readlinkSync(folder.path) === path) return folder;
    folder.close();
    throw new SwappedFolder(path);
  }

  /** The path of an entry of this folder, for calls that follow no link. A name that is not UTF-8 is bytes. */
  at(name: string): string;
  at(name: string | Buffer): string | Buffer;
  at(name: string | Buffer): string | Buffer {
    if (typeof name === "string") return `${this.path}/${name}`;
    return Buffer.concat([Buffer.from(`${this.path}/`), name]);
  }

  /** Opens a folder in this one; ENOTDIR for a symlink as for a file. */
  open(name: string | Buffer): OpenFolder {
    const path = this.at(name);
    const fd = openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_PATH);
    return new OpenFolder(fd, path.toString());
  }

  /** Opens a folder in this one, and makes it if it is missing. A new folder belongs to `owner`. */
  make(name: string | Buffer, options: { owner?: Owner | undefined; mode?: number } = {}): OpenFolder {
    const isMade = tryToMake(this.at(name), options.mode);
    const folder = this.open(name);
    try {
      if (isMade) folder.give(options.owner);
      return folder;
    } catch (error) {
      folder.close();
      throw error;
    }
  }

  /** Makes a symlink that belongs to `owner`. */
  link(name: string | Buffer, target: string | Buffer, owner: Owner | undefined): void {
    symlinkSync(target, this.at(name));
    if (owner === undefined) return;
    const fd = openSync(this.at(name), O_PATH | O_NOFOLLOW);
    try {
      const found = fstatSync(fd);
      if (found.isSymbolicLink() && found.uid === process.geteuid?.()) {
        chownSync(`/proc/self/fd/${fd}`, owner.uid, owner.gid);
      }
    } finally {
      closeSync(fd);
    }
  }

  /** Gives a folder that we have just made to `owner`. A folder with content or of another user was swapped in. */
  give(owner: Owner | undefined): void {
    if (owner === undefined || this.stat().uid !== process.geteuid?.() || this.names().length > 0) return;
    chownSync(this.path, owner.uid, owner.gid);
  }

  names(): string[] {
    return readdirSync(this.path);
  }

  /** The stats of an entry, links not followed. Undefined where it is gone, or where this folder cannot be entered. */
  find(name: string): Stats | undefined {
    try {
      return lstatSync(this.at(name), { throwIfNoEntry: false });
    } catch {
      return undefined;
    }
  }

  stat(): Stats {
    return fstatSync(this.fd);
  }

  chmod(mode: number): void {
    chmodSync(this.path, mode);
  }

  close(): void {
    closeSync(this.fd);
  }
}

function tryToMake(path: string | Buffer, mode = 0o777): boolean {
  try {
    mkdirSync(path, mode);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    return false;
  }
}

/** Makes missing folders in `parent`, and gives those of the server's user to `owner`. No link is followed. */
export function makeFolders(parent: string, names: readonly string[], owner: Owner | undefined): void {
  const folder = OpenFolder.openReal(parent);
  try {
    for (const name of names) {
      const made = folder.make(name, { mode: 0o700 });
      try {
        const { uid } = made.stat();
        if (owner !== undefined && uid !== owner.uid && uid === process.geteuid?.()) {
          chownSync(made.path, owner.uid, owner.gid);
        }
      } finally {
        made.close();
      }
    }
  } finally {
    folder.close();
  }
}

/** The parent of a relative path, "" for the top, and the last name. */
export function splitPath(path: string): { parent: string; name: string } {
  const cut = path.lastIndexOf("/");
  return { parent: path.slice(0, Math.max(0, cut)), name: path.slice(cut + 1) };
}

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
    const { parent, name } = splitPath(path);
    return { folder: this.open(parent), name };
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
