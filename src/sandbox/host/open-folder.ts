import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  existsSync,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readlinkSync,
  symlinkSync,
  type Stats,
} from "node:fs";
import type { Owner } from "./owner.ts";

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;

/** Whether an entry of an open folder can be named by the folder's descriptor. */
export const BY_DESCRIPTOR: boolean = process.platform === "linux" && existsSync("/proc/self/fd");
/** Holds a file without opening it: no right to read is needed, no pipe waits, no device wakes. Node does not name it. */
export const O_PATH = BY_DESCRIPTOR ? 0o10000000 : 0;

/** A folder on the way to it is a symlink by now, or it is one itself. */
export class SwappedFolder extends Error {
  readonly code = "ELOOP";

  constructor(path: string) {
    super(`${path} was replaced by a link`);
    this.name = "SwappedFolder";
  }
}

/**
 * A folder that is held open. All work on a tree that an agent can change goes through these, one name at a time: whatever
 * is put in the place of a folder meanwhile, a name in the open one leads nowhere else.
 */
export class OpenFolder {
  /** The folder itself, whatever happens to its name. */
  readonly path: string;
  readonly fd: number;

  private constructor(fd: number, path: string) {
    this.fd = fd;
    this.path = BY_DESCRIPTOR ? `/proc/self/fd/${fd}` : path;
  }

  /** Opens the folder of a path that has no symlink in it; one that has is refused. */
  static openReal(path: string, options: { readable?: boolean } = {}): OpenFolder {
    const how = options.readable ? O_NONBLOCK : O_PATH;
    const folder = new OpenFolder(openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | how), path);
    // The kernel knows where the open folder lies, whatever the path says by now.
    if (!BY_DESCRIPTOR || readlinkSync(folder.path) === path) return folder;
    folder.close();
    throw new SwappedFolder(path);
  }

  /** An entry of this very folder, to be used without following it. A name that is not UTF-8 comes as bytes. */
  at(name: string): string;
  at(name: string | Buffer): string | Buffer;
  at(name: string | Buffer): string | Buffer {
    if (typeof name === "string") return `${this.path}/${name}`;
    return Buffer.concat([Buffer.from(`${this.path}/`), name]);
  }

  /** Opens a folder in it; ENOTDIR for a symlink as for a file. */
  open(name: string | Buffer): OpenFolder {
    const path = this.at(name);
    const fd = openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_PATH);
    return new OpenFolder(fd, path.toString());
  }

  /** Opens a folder in it after making it, unless it is there. One that was made is the owner's. */
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

  /** Makes a symlink that is the owner's. */
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

  /** Gives away a folder that we have just made. One that is not ours, or has something in it, was put in its place. */
  give(owner: Owner | undefined): void {
    if (owner === undefined || this.stat().uid !== process.geteuid?.() || this.names().length > 0) return;
    chownSync(this.path, owner.uid, owner.gid);
  }

  names(): string[] {
    return readdirSync(this.path);
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

/**
 * Makes what is missing of the folders that a sandbox has in one of ours, and gives those that are ours to their owner.
 * Nothing is followed that stands in the place of one.
 */
export function makeFolders(
  parent: string,
  names: readonly string[],
  options: { owner: Owner | undefined; mode?: number },
): void {
  const { owner, mode = 0o700 } = options;
  const folder = OpenFolder.openReal(parent);
  try {
    for (const name of names) {
      const made = folder.make(name, { mode });
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
