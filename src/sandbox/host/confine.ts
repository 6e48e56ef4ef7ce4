import { constants } from "node:fs";
import { lstat, mkdir, open, readlink, realpath, type FileHandle } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { isInside, outside, type MappedPath } from "./mapping.ts";
import { giveFile, type Owner } from "./owner.ts";

const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = constants;

/** The host folders that a path may end up in, and those that it may not although they are in one of them. */
export interface Bounds {
  readonly inside: readonly string[];
  readonly except: readonly string[];
  /** Whose everything is that we make in them, where it is not ours. */
  readonly owner?: Owner;
}

/** An open folder. No symlink that is swapped in on the way to it can lead a name in it elsewhere. */
export interface Anchor {
  readonly path: string;
  /** An entry of this very folder, to be used without following it. */
  at(name: string): string;
}

/** Opens the folder that a path is in, with all that leads there, and works on the last component in it. */
export async function withParent<T>(
  path: MappedPath,
  options: { bounds: Bounds; make?: boolean },
  work: (parent: Anchor, name: string) => Promise<T>,
): Promise<T> {
  const parent = { said: path.said, host: dirname(path.host) };
  const inParent = (anchor: Anchor): Promise<T> => work(anchor, basename(path.host));
  return options.make
    ? withMadeFolder(parent, options.bounds, inParent)
    : withFolder(parent, options.bounds, inParent);
}

/** Opens the folder itself. Any part of its path may be a symlink as long as it ends inside. */
export async function withFolder<T>(
  path: MappedPath,
  bounds: Bounds,
  work: (folder: Anchor) => Promise<T>,
): Promise<T> {
  const real = await realpath(path.host).catch((cause: unknown) => refuse(path, bounds, cause));
  const handle = await open(real, O_RDONLY | O_DIRECTORY);
  try {
    return await work(await toAnchor(handle, { real, said: path.said }, bounds));
  } finally {
    await handle.close();
  }
}

/** The same, after making what is missing of it: folder by folder, each in the open one before it. */
export async function withMadeFolder<T>(
  path: MappedPath,
  bounds: Bounds,
  work: (folder: Anchor) => Promise<T>,
): Promise<T> {
  const { said, host } = path;
  const real = await realpath(host).catch(absent);
  if (real !== undefined || host === dirname(host)) return withFolder(path, bounds, work);
  const name = basename(host);
  return withMadeFolder({ said, host: dirname(host) }, bounds, async (parent) => {
    await mkdir(parent.at(name)).catch(present);
    const handle = await open(parent.at(name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    try {
      await giveFile(handle, bounds.owner);
      return await work(await toAnchor(handle, { real: parent.at(name), said }, bounds));
    } finally {
      await handle.close();
    }
  });
}

/** The same path, a symlink in its last place replaced by what it leads to. */
export async function toTarget(path: MappedPath, bounds: Bounds): Promise<MappedPath> {
  const found = await lstat(path.host).catch(() => undefined);
  if (!found?.isSymbolicLink()) return path;
  const host = await realpath(path.host).catch(() => undefined);
  // A link to nothing could be made to lead anywhere by the time that it is used.
  if (host === undefined || !isWithin(host, bounds)) throw outside(path.said);
  return { said: path.said, host };
}

/** What counts is where the kernel says that the open folder is; without /proc the path has to do. */
async function toAnchor(
  handle: FileHandle,
  path: { real: string; said: string },
  bounds: Bounds,
): Promise<Anchor> {
  const link = `/proc/self/fd/${handle.fd}`;
  const real = await readlink(link).catch(() => undefined);
  if (!isWithin(real ?? path.real, bounds)) throw outside(path.said);
  const base = real === undefined ? path.real : link;
  return { path: base, at: (name) => join(base, name) };
}

/** What is missing outside is refused like what is there: nobody can ask which files the host has. */
async function refuse(path: MappedPath, bounds: Bounds, cause: unknown): Promise<never> {
  for (let folder = dirname(path.host); ; folder = dirname(folder)) {
    const real = await realpath(folder).catch(() => undefined);
    if (real === undefined && folder !== dirname(folder)) continue;
    if (real === undefined || !isWithin(real, bounds)) throw outside(path.said);
    throw cause;
  }
}

function isWithin(real: string, bounds: Bounds): boolean {
  const roots = bounds.inside.filter((root) => isInside(real, root));
  const nearest = Math.max(0, ...roots.map((root) => root.length));
  return roots.length > 0 && !bounds.except.some((root) => root.length > nearest && isInside(real, root));
}

function absent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== "ENOENT") throw error;
  return undefined;
}

function present(error: NodeJS.ErrnoException): void {
  if (error.code !== "EEXIST") throw error;
}
