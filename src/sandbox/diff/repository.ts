import { lstat, readdir, realpath } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { openRegular, readUpTo } from "../host/files/open-file.ts";
import { OpenFolder } from "../host/files/open-folder.ts";
import { isInside } from "../host/files/paths.ts";
import { buildGitEnvironment, findGit, runGit, type Confinement } from "./git.ts";

const SMALL_BYTES = 64 * 1024;
const MAX_ALTERNATES = 5;

/** The folders of a repository. A linked worktree has a git folder of its own, and a common one. */
export interface Repository {
  readonly worktree: string;
  readonly gitDir: string;
  readonly commonDir: string;
  readonly objects: string;
}

export interface FindOptions {
  /** Whether the folders above are searched, too: for a folder that a user has chosen. */
  readonly search?: boolean;
  /**
   * Whether the history must lie in the folder. An untrusted writer could otherwise point it at other files of this
   * machine.
   */
  readonly confined: boolean;
}

export async function findRepository(folder: string, options: FindOptions): Promise<Repository | undefined> {
  for (let worktree = await realpath(folder); ; worktree = dirname(worktree)) {
    const found = await lstat(join(worktree, ".git")).catch(() => undefined);
    if (found) return readRepository(worktree, found.isFile(), options.confined);
    if (!options.search || worktree === dirname(worktree)) return undefined;
  }
}

/** A small file of a repository, as text. */
export async function readSmall(file: string): Promise<string | undefined> {
  return (await readRegular(file, SMALL_BYTES))?.bytes.toString("utf8");
}

/** Reads a regular file of a repository. No symlink in its path is followed, and a pipe is not waited for. */
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

async function readRepository(worktree: string, linked: boolean, confined: boolean): Promise<Repository> {
  const gitDir = await realpath(linked ? await readLink(worktree) : join(worktree, ".git")).catch(() => {
    throw new Unavailable("its git folder is missing");
  });
  const own = isInside(gitDir, worktree);
  if (confined && !own && !(linked && (await pointsBack(gitDir, worktree)))) {
    throw new Unavailable("its git folder lies elsewhere and does not know it");
  }
  const common = (await readSmall(join(gitDir, "commondir")))?.trim();
  const commonDir = common ? await realpath(resolve(gitDir, common)) : gitDir;
  const objects = await realpath(join(commonDir, "objects")).catch(() => {
    throw new Unavailable("its git folder has no objects");
  });
  if (confined && own) await demandInside(worktree, commonDir, objects);
  return { worktree, gitDir, commonDir, objects };
}

async function readLink(worktree: string): Promise<string> {
  const target = /^gitdir: (.+)/s
    .exec((await readSmall(join(worktree, ".git"))) ?? "")?.[1]
    ?.replace(/\n+$/, "");
  if (target === undefined) throw new Unavailable("its .git file names no folder");
  return resolve(worktree, target);
}

/** Whether a git folder elsewhere names this worktree, by a file that the worktree's writer cannot reach. */
async function pointsBack(gitDir: string, worktree: string): Promise<boolean> {
  const link = (await readSmall(join(gitDir, "gitdir")))?.replace(/\n+$/, "");
  if (link !== undefined)
    return (await realpath(dirname(resolve(gitDir, link))).catch(() => "")) === worktree;
  const config = (await readSmall(join(gitDir, "config"))) ?? "";
  const named = /^\s*worktree\s*=\s*(.+?)\s*$/m.exec(config)?.[1];
  if (named === undefined) return false;
  return (await realpath(resolve(gitDir, named)).catch(() => "")) === worktree;
}

async function demandInside(worktree: string, commonDir: string, objects: string): Promise<void> {
  const pending = [commonDir, objects];
  const seen = new Set<string>();
  for (let path = pending.pop(); path !== undefined; path = pending.pop()) {
    if (!isInside(path, worktree)) throw new Unavailable("its history lies outside of it");
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

/** Fails where a symlink could redirect a whole folder of objects. */
async function demandNoLinks(folder: string): Promise<void> {
  for (const path of [folder, join(folder, "pack"), join(folder, "info")]) {
    const entries = await readdir(path, { withFileTypes: true }).catch(() => []);
    const link = entries.find((entry) => entry.isSymbolicLink());
    if (link) throw new Unavailable(`its history leads elsewhere by ${link.name}`);
  }
}

const OBJECT_NAME = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;
const MAX_STEPS = 5;
const MAX_PACKED_BYTES = 64 * 1024 * 1024;

export const EMPTY_TREES: Readonly<Record<ObjectFormat, string>> = {
  sha1: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
  sha256: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
};

export type ObjectFormat = "sha1" | "sha256";

export function isObjectName(text: string): boolean {
  return OBJECT_NAME.test(text);
}

export interface HeadOptions {
  readonly signal: AbortSignal;
  readonly confinement: Confinement;
}

/** The commit that is checked out; undefined before the first one. */
export async function readHeadCommit(
  repository: Repository,
  options: HeadOptions,
): Promise<string | undefined> {
  let text = (await readSmall(join(repository.gitDir, "HEAD")))?.trim();
  for (let steps = 0; steps < MAX_STEPS && text !== undefined; steps++) {
    if (isObjectName(text)) return text;
    const name = /^ref: (refs\/\S+)$/.exec(text)?.[1];
    if (name === undefined || name.split("/").includes("..")) return undefined;
    if (name === "refs/heads/.invalid") return askGit(repository, options);
    text = await readReference(repository, name);
  }
  return undefined;
}

async function readReference({ gitDir, commonDir }: Repository, name: string): Promise<string | undefined> {
  for (const folder of new Set([gitDir, commonDir])) {
    const text = await readSmall(join(folder, name));
    if (text !== undefined) return text.trim();
  }
  const packed = await readRegular(join(commonDir, "packed-refs"), MAX_PACKED_BYTES);
  const line = packed?.bytes
    .toString("utf8")
    .split("\n")
    .find((line) => line.endsWith(` ${name}`));
  return line?.slice(0, line.indexOf(" "));
}

/** Asks git for the commit, in repositories with a reftable. git then reads their settings, so it runs confined. */
async function askGit(
  { gitDir }: Repository,
  { signal, confinement }: HeadOptions,
): Promise<string | undefined> {
  const git = findGit();
  if (git === undefined) return undefined;
  const cwd = confinement.toInner(gitDir);
  const env = { ...buildGitEnvironment("/nonexistent"), GIT_DIR: cwd };
  const args = ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"];
  const { stdout } = await runGit(git, args, { cwd, env, signal, confinement });
  const name = stdout.toString("latin1").trim();
  return isObjectName(name) ? name : undefined;
}

/** The reason why a folder has no diff, which is not a failure. */
export class Unavailable extends Error {}
