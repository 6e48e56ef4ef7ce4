import { constants, type Stats } from "node:fs";
import { cp, lchown, lstat, open, readdir, rename, rmdir, symlink, type FileHandle } from "node:fs/promises";
import { basename, join } from "node:path";
import { SluiceError } from "../../contract/index.ts";
import type { FileEntry, SandboxFiles, SandboxPaths } from "../port.ts";
import { toTarget, withFolder, withMadeFolder, withParent, type Bounds } from "./confine.ts";
import { withFileErrors } from "./fileErrors.ts";
import { outside, toMappedPath, type MappedPath } from "./mapping.ts";
import { giveFile, giveTree, type Owner } from "./owner.ts";
import { removeTree } from "./removeTree.ts";

const { O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_TRUNC, O_WRONLY } = constants;
const MAX_READ_BYTES = 512 * 1024 * 1024;

export interface WriteOptions {
  readonly mode?: number;
  /** What a relative path is under: the workspace unless said otherwise. */
  readonly base?: string;
}

/** The files of a sandbox on the host, none of them outside of it. */
export class HostFiles implements SandboxFiles {
  readonly #paths: SandboxPaths;
  readonly #host: SandboxPaths;
  readonly #bounds: Bounds;

  /**
   * `paths` is what the agent sees, `host` where that is, unless it is the same.
   * `except` holds the folders of other sandboxes, should the workspace contain them.
   */
  constructor(
    paths: SandboxPaths,
    except: readonly string[],
    { host = paths, owner }: { host?: SandboxPaths; owner?: Owner | undefined } = {},
  ) {
    this.#paths = paths;
    this.#host = host;
    const inside = [host.workspace, host.home, host.uploads];
    this.#bounds = { inside, except, ...(owner === undefined ? {} : { owner }) };
  }

  read(path: string): Promise<Uint8Array> {
    return withFileErrors(path, async () => {
      const target = await toTarget(this.#map(path), this.#bounds);
      return withParent(target, { bounds: this.#bounds }, async (parent, name) => {
        // A FIFO must not make us wait for its writer.
        const handle = await open(parent.at(name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
        return readAll(handle, path).finally(() => handle.close());
      });
    });
  }

  write(path: string, content: Uint8Array | string, options: WriteOptions = {}): Promise<void> {
    return withFileErrors(path, async () => {
      const target = await toTarget(this.#map(path, options.base), this.#bounds);
      this.#refuseRoots(target);
      await withParent(target, { bounds: this.#bounds, make: true }, async (parent, name) => {
        const flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK;
        const handle = await open(parent.at(name), flags, options.mode ?? 0o666);
        try {
          await giveFile(handle, this.#bounds.owner);
          if (options.mode !== undefined) await handle.chmod(options.mode);
          await handle.writeFile(content);
        } finally {
          await handle.close();
        }
      });
    });
  }

  symlink(path: string, target: string): Promise<void> {
    return withFileErrors(path, async () => {
      const mapped = this.#map(path);
      this.#refuseRoots(mapped);
      await withParent(mapped, { bounds: this.#bounds, make: true }, async (parent, name) => {
        await symlink(target, parent.at(name));
        const { owner } = this.#bounds;
        if (owner !== undefined) await lchown(parent.at(name), owner.uid, owner.gid);
      });
    });
  }

  list(path: string): Promise<FileEntry[]> {
    return withFileErrors(path, async () => {
      const mapped = this.#map(path);
      // The folder for outputs is a promise to every agent, also to one that has put nothing there.
      if (mapped.host === this.#host.outputs && !(await exists(mapped.host))) return [];
      return withFolder(mapped, this.#bounds, async (folder) => {
        const names = (await readdir(folder.path)).sort();
        const entries = names.map(async (name) => {
          const found = await lstat(folder.at(name)).catch(() => undefined);
          return found && toEntry(join(mapped.said, name), found);
        });
        return (await Promise.all(entries)).filter((entry) => entry !== undefined);
      });
    });
  }

  stat(path: string): Promise<FileEntry> {
    return withFileErrors(path, async () => {
      const mapped = this.#map(path);
      if (this.#isRoot(mapped)) return toEntry(mapped.said, await lstat(mapped.host));
      return withParent(mapped, { bounds: this.#bounds }, async (parent, name) =>
        toEntry(mapped.said, await lstat(parent.at(name))),
      );
    });
  }

  mkdir(path: string): Promise<void> {
    return withFileErrors(path, async () => {
      await withMadeFolder(this.#map(path), this.#bounds, async () => {});
    });
  }

  move(from: string, to: string, options: { overwrite?: boolean } = {}): Promise<void> {
    return withFileErrors(from, async () => {
      const [source, target] = [this.#map(from), this.#map(to)];
      this.#refuseRoots(source, target);
      const bounds = this.#bounds;
      await withParent(source, { bounds }, async (fromFolder, fromName) => {
        const origin = fromFolder.at(fromName);
        await lstat(origin);
        await withParent(target, { bounds, make: true }, async (toFolder, toName) => {
          const place = toFolder.at(toName);
          await withFileErrors(to, () => makePlace(place, to, options.overwrite ?? false));
          await moveTree(origin, place, bounds.owner);
        });
      });
    });
  }

  remove(path: string, options: { recursive?: boolean } = {}): Promise<void> {
    return withFileErrors(path, async () => {
      const mapped = this.#map(path);
      this.#refuseRoots(mapped);
      await withParent(mapped, { bounds: this.#bounds }, async (parent, name) => {
        const found = await lstat(parent.at(name));
        if (found.isDirectory() && !options.recursive) return rmdir(parent.at(name));
        return removeTree(parent.at(name));
      });
    });
  }

  #map(path: string, base: string = this.#paths.workspace): MappedPath {
    return toMappedPath(path, this.#paths, base, this.#host);
  }

  #isRoot(path: MappedPath): boolean {
    return this.#bounds.inside.includes(path.host);
  }

  #refuseRoots(...paths: MappedPath[]): void {
    const root = paths.find((path) => this.#isRoot(path));
    if (root) throw outside(root.said);
  }
}

async function readAll(handle: FileHandle, path: string): Promise<Uint8Array> {
  const found = await handle.stat();
  if (found.isDirectory())
    throw new SluiceError("invalid_request", `${path} is a folder; list it, or name a file.`);
  if (!found.isFile()) throw new SluiceError("invalid_request", `${path} is not a regular file.`);
  if (found.size > MAX_READ_BYTES) {
    throw new SluiceError(
      "too_large",
      `${path} has ${found.size} bytes; at most ${MAX_READ_BYTES} are read at once.`,
    );
  }
  return handle.readFile();
}

/** Sees to it that nothing is lost unasked where something is moved to. */
async function makePlace(place: string, said: string, overwrite: boolean): Promise<void> {
  if (!(await exists(place))) return;
  if (overwrite) return removeTree(place);
  throw new SluiceError(
    "invalid_request",
    `${said} exists already. Choose another name, or ask to overwrite it.`,
  );
}

async function moveTree(from: string, to: string, owner: Owner | undefined): Promise<void> {
  try {
    await rename(from, to);
  } catch (error) {
    // The workspace may be a user's folder on another disk than the rest of the sandbox.
    if ((error as NodeJS.ErrnoException).code !== "EXDEV") throw error;
    await cp(from, to, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true });
    await giveTree(to, owner);
    await removeTree(from);
  }
}

async function exists(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => undefined)) !== undefined;
}

function toEntry(path: string, found: Stats): FileEntry {
  return {
    path,
    name: basename(path),
    entryType: entryType(found),
    size: found.size,
    modified: Math.floor(found.mtimeMs),
  };
}

function entryType(found: Stats): FileEntry["entryType"] {
  if (found.isFile()) return "file";
  if (found.isDirectory()) return "directory";
  return found.isSymbolicLink() ? "symlink" : "other";
}
