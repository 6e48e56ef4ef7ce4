import { constants, type Stats } from "node:fs";
import { access, lstat } from "node:fs/promises";
import { join } from "node:path";
import { succeeds } from "../host/files/open-file.ts";
import { hasRight } from "../host/files/open-folder.ts";
import type { Owner } from "../port.ts";
import { toQuoted } from "./git.ts";
import { BIG_FILE_BYTES, withPrivateRepository, type PrivateRepository } from "./private-repository.ts";
import { findRepository, isObjectName, readHeadCommit, Unavailable, type HeadOptions } from "./repository.ts";

const TIMEOUT_MS = 10_000;
const MAX_DIFF_BYTES = 16 * 1024 * 1024;

export interface WorkspaceDiffOptions {
  /** A commit or tree to compare with, by its full name; by default the commit that is checked out. */
  readonly base?: string;
  /** Also look for the repository in the folders above. */
  readonly search?: boolean;
  /** Whether the folder's content is untrusted and may not point elsewhere; true by default. */
  readonly confined?: boolean;
  /** The owner of the folder, where that is not the server's own user: git runs as the owner. */
  readonly owner?: Owner | undefined;
  /** The parent of the private folder of the call. The writer of the workspace must not reach it. */
  readonly scratch?: string;
  readonly maxDiffBytes?: number;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /** Called with the reason where there is no diff. */
  readonly explain?: (reason: string) => void;
}

export interface WorkspaceDiff {
  /** Empty where nothing changed. */
  readonly diff: string;
  /** Files without content here: too large, or unreadable. */
  readonly omitted: readonly Omitted[];
  /** Whether the diff was too long and ends early, between two files. */
  readonly cut: boolean;
}

/**
 * The whole difference between a working tree and its commit, new files included, as `git diff` shows it. It changes
 * nothing in the repository and runs none of its programs. Undefined where the folder is no repository, or without git.
 */
export async function workspaceDiff(
  folder: string,
  options: WorkspaceDiffOptions = {},
): Promise<WorkspaceDiff | undefined> {
  const { search = false, confined = true, scratch, owner } = options;
  const timeout = AbortSignal.timeout(options.timeoutMs ?? TIMEOUT_MS);
  const signal = options.signal ? AbortSignal.any([timeout, options.signal]) : timeout;
  try {
    return await withPrivateRepository(folder, { search, confined, signal, scratch, owner }, (repository) =>
      compareWorktree(repository, folder, { ...options, signal }),
    );
  } catch (error) {
    options.signal?.throwIfAborted();
    options.explain?.(toReason(error));
    return undefined;
  }
}

async function compareWorktree(
  repository: PrivateRepository,
  folder: string,
  options: WorkspaceDiffOptions & { signal: AbortSignal },
): Promise<WorkspaceDiff> {
  const { base: from = repository.head, maxDiffBytes: maxBytes = MAX_DIFF_BYTES, signal, owner } = options;
  if (!isObjectName(from)) throw new Unavailable(`${from} is not the name of a commit`);
  const omitted = await indexWorktree(repository, { folder, signal, owner });
  const relative = options.search === true ? ["--relative"] : [];
  const compared = await repository.read([...COMPARE.split(" "), ...relative, from, "--"], { maxBytes });
  if (compared.code !== 0 && !compared.cut) throw new Unavailable(`git failed: ${compared.stderr.trim()}`);
  const text = compared.stdout.toString("utf8");
  const shown = compared.cut ? toWholeFiles(text, maxBytes) : text;
  return { diff: shown + omitted.map(toNote).join(""), omitted, cut: compared.cut };
}

/** `diff`, not `diff-index`: it leaves out files that were written again with the same content. */
const COMPARE =
  "diff --patch --find-renames --no-color --no-ext-diff --no-textconv --ignore-submodules=dirty --submodule=short";

function toWholeFiles(text: string, limit: number): string {
  const end = text.lastIndexOf("\ndiff --git ") + 1;
  return `${text.slice(0, end)}# The rest is left out: the diff is longer than ${limit} bytes.\n`;
}

function toNote({ path, isNew, reason }: Omitted): string {
  const [before, after] = [toQuoted(`a/${path}`), toQuoted(`b/${path}`)];
  const header = `diff --git ${before} ${after}\n`;
  return `${header}Binary files ${isNew ? "/dev/null" : before} and ${after} differ\n# ${reason}\n`;
}

function toReason(error: unknown): string {
  if (error instanceof Unavailable) return error.message;
  if (error instanceof Error && error.name === "TimeoutError") return "git took too long";
  return error instanceof Error ? error.message : String(error);
}

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
  /** The owner of the files, where that is not the server's own user: git reads them as the owner. */
  readonly owner: Owner | undefined;
}

/**
 * Adds new files to the private index: without it, git does not compare them. Files that are too large or unreadable
 * count as unchanged, and are returned.
 */
async function indexWorktree(repository: PrivateRepository, options: IndexOptions): Promise<Omitted[]> {
  const { added, modified, unmerged } = await listChanged(repository);
  const omitted: Omitted[] = [];
  const [toAdd, toRemove, toSkip]: string[][] = [[], [], []];
  let total = 0;
  for (const listed of [...modified, ...added]) {
    const path = listed.replace(/\/$/, "");
    const isNew = added.has(listed);
    const full = join(options.folder, path);
    const found = await lstat(full).catch(() => undefined);
    const reason = found?.isFile()
      ? await findObstacle(full, found, { total, owner: options.owner })
      : undefined;
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

async function findObstacle(
  path: string,
  found: Stats,
  { total, owner }: { total: number; owner: Owner | undefined },
): Promise<string | undefined> {
  if (found.size > BIG_FILE_BYTES) return `It has ${found.size} bytes and is left out.`;
  if (total + found.size > MAX_TOTAL_BYTES) return "It is left out: too much has changed.";
  return (await isReadable(path, found, owner)) ? undefined : "It cannot be read.";
}

/** Whether git can read the file. It runs as the owner, or as uid 0 without root's rights: the mode decides. */
async function isReadable(path: string, found: Stats, owner: Owner | undefined): Promise<boolean> {
  if (process.geteuid?.() !== 0) return succeeds(access(path, constants.R_OK));
  const reader = owner ?? { uid: 0, gid: process.getegid?.() ?? 0 };
  return hasRight(found, reader, 4);
}

/** Whether a folder is a repository with a commit. Only its commit counts in the diff, not its files. */
async function isNested(folder: string, options: HeadOptions): Promise<boolean> {
  const nested = await findRepository(folder, { confined: false }).catch(() => undefined);
  return nested !== undefined && (await readHeadCommit(nested, options)) !== undefined;
}
