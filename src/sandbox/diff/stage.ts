import { constants, type Stats } from "node:fs";
import { access, lstat } from "node:fs/promises";
import { join } from "node:path";
import type { Owner } from "../host/owner.ts";
import { readHeadCommit, type HeadOptions } from "./head.ts";
import { BIG_FILE_BYTES, type PrivateRepository } from "./privateRepository.ts";
import { findRepository } from "./repository.ts";
import { Unavailable } from "./unavailable.ts";

/** More than this is not read for one diff. */
const MAX_TOTAL_BYTES = 256 * 1024 * 1024;

export interface Omitted {
  readonly path: string;
  readonly isNew: boolean;
  readonly reason: string;
}

export interface StageOptions {
  readonly folder: string;
  readonly signal: AbortSignal;
  /** Who reads the files, where that is not the server's own user. */
  readonly owner: Owner | undefined;
}

/**
 * Brings into the private index what git would not look at by itself: new files. What is too large or cannot be read
 * is taken for unchanged, and answered.
 */
export async function stageWorktree(
  repository: PrivateRepository,
  options: StageOptions,
): Promise<Omitted[]> {
  const { added, modified, unmerged } = await listStirred(repository);
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

interface Stirred {
  readonly modified: ReadonlySet<string>;
  readonly added: ReadonlySet<string>;
  readonly unmerged: ReadonlySet<string>;
}

async function listStirred(repository: PrivateRepository): Promise<Stirred> {
  const listed = repository.hasIndex ? await list(repository) : undefined;
  if (listed) return listed;
  // No index, or one that this git cannot read: the commit's own will do.
  await repository.reset();
  const second = await list(repository);
  if (!second) throw new Unavailable("git cannot tell which files have changed");
  return second;
}

/** By plumbing that looks into no submodule. */
async function list(repository: PrivateRepository): Promise<Stirred | undefined> {
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

/** Whether git looks at it by itself; it would wait for the writer of a pipe. */
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

/** Root may read everything, but git runs with no more rights than a file's owner, group and others have. */
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

/** A repository in the working tree counts by its commit alone. */
async function isNested(folder: string, options: HeadOptions): Promise<boolean> {
  const nested = await findRepository(folder, { confined: false }).catch(() => undefined);
  return nested !== undefined && (await readHeadCommit(nested, options)) !== undefined;
}
