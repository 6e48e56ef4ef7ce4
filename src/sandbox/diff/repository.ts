import { lstat, readdir, realpath } from "node:fs/promises";
import { basename, dirname, join, resolve, sep } from "node:path";
import { openRegular, readUpTo } from "../host/open-file.ts";
import { OpenFolder } from "../host/open-folder.ts";
import { Unavailable } from "./unavailable.ts";

const SMALL_BYTES = 64 * 1024;
const MAX_ALTERNATES = 5;

/** Where the parts of a repository lie. Linked worktrees have a git folder of their own beside the common one. */
export interface Repository {
  readonly worktree: string;
  readonly gitDir: string;
  readonly commonDir: string;
  readonly objects: string;
}

export interface FindOptions {
  /** Also in the folders above: for a folder that a user has chosen. */
  readonly search?: boolean;
  /** Whoever writes to the folder must not show us, as its history, what lies elsewhere on this machine. */
  readonly confined: boolean;
}

export async function findRepository(folder: string, options: FindOptions): Promise<Repository | undefined> {
  for (let worktree = await realpath(folder); ; worktree = dirname(worktree)) {
    const found = await lstat(join(worktree, ".git")).catch(() => undefined);
    if (found) return toRepository(worktree, found.isFile(), options.confined);
    if (!options.search || worktree === dirname(worktree)) return undefined;
  }
}

/** A small file of a repository, as text. */
export async function readSmall(file: string): Promise<string | undefined> {
  return (await readRegular(file, SMALL_BYTES))?.bytes.toString("utf8");
}

/** A file of a repository, never through a symlink, not even to its folder, and never waiting for a writer. */
export async function readRegular(
  file: string,
  maxBytes: number,
): Promise<{ bytes: Buffer; mtimeMs: number } | undefined> {
  try {
    const folder = OpenFolder.openReal(dirname(file));
    const handle = await openRegular(folder.at(basename(file))).finally(() => folder.close());
    try {
      const { mtimeMs } = await handle.stat();
      const bytes = await readUpTo(handle, maxBytes);
      return bytes && { bytes, mtimeMs };
    } finally {
      await handle.close();
    }
  } catch {
    return undefined;
  }
}

async function toRepository(worktree: string, linked: boolean, confined: boolean): Promise<Repository> {
  const gitDir = await realpath(linked ? await readLink(worktree) : join(worktree, ".git")).catch(() => {
    throw new Unavailable("its git folder is missing");
  });
  const own = isWithin(gitDir, worktree);
  if (confined && !own && !(linked && (await pointsBack(gitDir, worktree)))) {
    throw new Unavailable("its git folder lies elsewhere and does not know it");
  }
  const common = (await readSmall(join(gitDir, "commondir")))?.trim();
  const commonDir = common ? await realpath(resolve(gitDir, common)) : gitDir;
  const objects = await realpath(join(commonDir, "objects")).catch(() => {
    throw new Unavailable("its git folder has no objects");
  });
  if (confined && own) await demandWithin(worktree, commonDir, objects);
  return { worktree, gitDir, commonDir, objects };
}

async function readLink(worktree: string): Promise<string> {
  const target = /^gitdir: (.+)/s
    .exec((await readSmall(join(worktree, ".git"))) ?? "")?.[1]
    ?.replace(/\n+$/, "");
  if (target === undefined) throw new Unavailable("its .git file names no folder");
  return resolve(worktree, target);
}

/** Whether a git folder elsewhere names this worktree as its own, by a file that a worktree's writer cannot reach. */
async function pointsBack(gitDir: string, worktree: string): Promise<boolean> {
  const link = (await readSmall(join(gitDir, "gitdir")))?.replace(/\n+$/, "");
  if (link !== undefined)
    return (await realpath(dirname(resolve(gitDir, link))).catch(() => "")) === worktree;
  const config = (await readSmall(join(gitDir, "config"))) ?? "";
  const place = /^\s*worktree\s*=\s*(.+?)\s*$/m.exec(config)?.[1];
  if (place === undefined) return false;
  return (await realpath(resolve(gitDir, place)).catch(() => "")) === worktree;
}

async function demandWithin(worktree: string, commonDir: string, objects: string): Promise<void> {
  const pending = [commonDir, objects];
  const seen = new Set<string>();
  for (let path = pending.pop(); path !== undefined; path = pending.pop()) {
    if (!isWithin(path, worktree)) throw new Unavailable("its history lies outside of it");
    if (seen.has(path)) continue;
    if (seen.add(path).size > MAX_ALTERNATES) throw new Unavailable("its history lies in too many places");
    await demandNoLinks(path);
    const alternates = (await readSmall(join(path, "info/alternates"))) ?? "";
    for (const line of alternates.split("\n")) {
      if (line === "" || line.startsWith("#")) continue;
      if (line.startsWith('"')) throw new Unavailable("its history lies in a folder with an unusual name");
      const real = await realpath(resolve(path, line)).catch(() => undefined);
      if (real !== undefined) pending.push(real);
    }
  }
}

/** Where whole folders of objects could be made to lie elsewhere. */
async function demandNoLinks(folder: string): Promise<void> {
  for (const place of [folder, join(folder, "pack"), join(folder, "info")]) {
    const entries = await readdir(place, { withFileTypes: true }).catch(() => []);
    const link = entries.find((entry) => entry.isSymbolicLink());
    if (link) throw new Unavailable(`its history leads elsewhere by ${link.name}`);
  }
}

function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder === sep ? sep : folder + sep);
}
