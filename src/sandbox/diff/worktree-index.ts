import { constants, type Stats } from "node:fs";
import { access, lstat } from "node:fs/promises";
import { join } from "node:path";
import type { Owner } from "../host/owner.ts";
import { BIG_FILE_BYTES, type PrivateRepository } from "./private-repository.ts";
import { findRepository, readHeadCommit, Unavailable, type HeadOptions } from "./repository.ts";

/** The most bytes of files that are read for one diff. */
const MAX_TOTAL_BYTES = 256 * 1024 * 1024;

export interface Omitted {
  readonly path: string;
  readonly isNew: boolean;
  readonly reason: string;
}

interface IndexOptions {
  readonly folder: string;
  readonly signal: AbortSignal;
  /** The reader of the files, where that is not the server's own user. */
  readonly owner: Owner | undefined;
}

/**
 * Adds new files to the private index: without it, git does not compare them. Files that are too large or unreadable
 * count as unchanged, and are returned.
 */
export async function indexWorktree(
  repository: PrivateRepository,
  options: IndexOptions,
): Promise<Omitted[]> {
  const { added, modified, unmerged } = await listChanged(repository);
  const omitted: Omitted[] = [];
  const [toAdd, toRemove, toSkip]: string[][] = [[], [], []];
  let total = 0;
  for (const listed of [...modified, ...added]) {
    const path = listed.replace(/\/$/, "");
    const isNew = added.has(listed);
    const full = join(options.folder, path);
    const found = await lstat(full).catch(() => undefined);
    const reason = found?.isFile() ? await whyNot(full, found, { total, owner: options.owner }) : undefined;
    if (reason !== undefined) {
      omitted.push({ path, isNew, reason });
      if (!isNew) toSkip?.push(path);
      continue;
    }
    total += found?.size ?? 0;
    if (isNew || unmerged.has(listed)) {
      if (found && (await canBeAdded(full, found, { ...options, confinement: repository.confinement })))
        toAdd?.push(path);
      else if (!isNew) toRemove?.push(path);
    } else if (found && !isKept(found)) toRemove?.push(path);
  }
  await update(repository, ["--force-remove"], toRemove);
  await update(repository, ["--assume-unchanged"], toSkip);
  await update(repository, ["--add", "--replace"], toAdd);
  return omitted;
}

async function update(
  repository: PrivateRepository,
  how: readonly string[],
  paths: readonly string[] = [],
): Promise<void> {
  if (paths.length === 0) return;
  const input = paths.map((path) => `${path}\0`).join("");
  const { code, stderr } = await repository.write(["update-index", ...how, "-z", "--stdin"], input);
  if (code !== 0) throw new Unavailable(`git failed: ${stderr.trim()}`);
}

interface ChangedFiles {
  readonly modified: ReadonlySet<string>;
  readonly added: ReadonlySet<string>;
  readonly unmerged: ReadonlySet<string>;
}

async function listChanged(repository: PrivateRepository): Promise<ChangedFiles> {
  const listed = repository.hasIndex ? await list(repository) : undefined;
  if (listed) return listed;
  // There is no index, or this git cannot read it: one from the commit replaces it.
  await repository.reset();
  const second = await list(repository);
  if (!second) throw new Unavailable("git cannot tell which files have changed");
  return second;
}

/** Lists changed files by `ls-files`, which does not enter submodules. */
async function list(repository: PrivateRepository): Promise<ChangedFiles | undefined> {
  const args = ["ls-files", "-z", "-t", "--modified", "--others", "--exclude-standard"];
  const { code, stdout, cut } = await repository.read(args);
  if (cut) throw new Unavailable("too many files have changed");
  if (code !== 0) return undefined;
  const [modified, added, unmerged] = [new Set<string>(), new Set<string>(), new Set<string>()];
  for (const line of stdout.toString("utf8").split("\0").filter(Boolean)) {
    const path = line.slice(2);
    if (line.startsWith("? ")) added.add(path);
    // An unmerged file is listed once for each of its versions.
    else if (modified.has(path)) unmerged.add(path);
    else modified.add(path);
  }
  return { modified, added, unmerged };
}

/** Whether git can compare an entry of this kind. On a pipe it would wait for a writer. */
function isKept(found: Stats): boolean {
  return found.isFile() || found.isSymbolicLink() || found.isDirectory();
}

async function canBeAdded(path: string, found: Stats, options: HeadOptions): Promise<boolean> {
  if (found.isFile() || found.isSymbolicLink()) return true;
  return found.isDirectory() && (await isNested(path, options));
}

async function whyNot(
  path: string,
  found: Stats,
  { total, owner }: { total: number; owner: Owner | undefined },
): Promise<string | undefined> {
  if (found.size > BIG_FILE_BYTES) return `It has ${found.size} bytes and is left out.`;
  if (total + found.size > MAX_TOTAL_BYTES) return "It is left out: too much has changed.";
  return (await isReadable(path, found, owner)) ? undefined : "It cannot be read.";
}

/** Whether git can read the file. Root may read every file, but git runs as `owner`, without root's rights. */
async function isReadable(
  path: string,
  { uid, gid, mode }: Stats,
  owner: Owner | undefined,
): Promise<boolean> {
  const reader = owner ?? { uid: process.geteuid?.(), gid: process.getegid?.() };
  if (reader.uid === undefined || process.geteuid?.() !== 0) {
    return access(path, constants.R_OK).then(
      () => true,
      () => false,
    );
  }
  const shift = uid === reader.uid ? 6 : gid === reader.gid ? 3 : 0;
  return ((mode >> shift) & 4) !== 0;
}

/** Whether a folder is a repository with a commit. Only its commit counts in the diff, not its files. */
async function isNested(folder: string, options: HeadOptions): Promise<boolean> {
  const nested = await findRepository(folder, { confined: false }).catch(() => undefined);
  return nested !== undefined && (await readHeadCommit(nested, options)) !== undefined;
}
