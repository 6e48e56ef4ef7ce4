import { constants, type Stats } from "node:fs";
import { access, lstat } from "node:fs/promises";
import { join } from "node:path";
import { readHeadCommit } from "./head.ts";
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
}

/** Brings the private index to the state of the working tree; answers what was too large or could not be read. */
export async function stageWorktree(
  repository: PrivateRepository,
  options: StageOptions,
): Promise<Omitted[]> {
  const stirred = await listStirred(repository);
  const omitted: Omitted[] = [];
  const present: string[] = [];
  const missing: string[] = [];
  let total = 0;
  for (const listed of new Set([...stirred.modified, ...stirred.added])) {
    const path = listed.replace(/\/$/, "");
    const full = join(options.folder, path);
    const found = await lstat(full).catch(() => undefined);
    const isNew = stirred.added.has(listed);
    if (found?.isFile()) {
      const reason = await whyNot(full, found, total);
      if (reason !== undefined) {
        omitted.push({ path, isNew, reason });
        continue;
      }
      total += found.size;
    }
    if (
      found?.isFile() ||
      found?.isSymbolicLink() ||
      (found?.isDirectory() && (await isNested(full, options)))
    ) {
      present.push(path);
    } else if (!isNew) missing.push(path);
  }
  await update(repository, ["--force-remove"], missing);
  await update(repository, ["--add", "--remove", "--replace"], present);
  return omitted;
}

async function update(
  repository: PrivateRepository,
  how: readonly string[],
  paths: readonly string[],
): Promise<void> {
  if (paths.length === 0) return;
  const { code, stderr } = await repository.run(["update-index", ...how, "-z", "--stdin"], {
    input: paths.map((path) => `${path}\0`).join(""),
  });
  if (code !== 0) throw new Unavailable(`git failed: ${stderr.trim()}`);
}

/** What differs from the index, and what is not in it; by plumbing that looks into no submodule. */
async function listStirred(
  repository: PrivateRepository,
): Promise<{ modified: Set<string>; added: Set<string> }> {
  const listed = repository.hasIndex ? await listPaths(repository, "--modified") : undefined;
  if (listed) return { modified: listed, added: await demandPaths(repository, "--others") };
  // No index, or one that this git cannot read: the commit's own will do.
  await repository.run(["read-tree", "--reset", repository.head]);
  return {
    modified: await demandPaths(repository, "--modified"),
    added: await demandPaths(repository, "--others"),
  };
}

async function demandPaths(repository: PrivateRepository, which: string): Promise<Set<string>> {
  const paths = await listPaths(repository, which);
  if (!paths) throw new Unavailable("git cannot tell which files have changed");
  return paths;
}

async function listPaths(repository: PrivateRepository, which: string): Promise<Set<string> | undefined> {
  const { code, stdout, cut } = await repository.run(["ls-files", "-z", which, "--exclude-standard"]);
  if (cut) throw new Unavailable("too many files have changed");
  if (code !== 0) return undefined;
  return new Set(stdout.toString("utf8").split("\0").filter(Boolean));
}

async function whyNot(path: string, found: Stats, total: number): Promise<string | undefined> {
  if (found.size > BIG_FILE_BYTES) return `It has ${found.size} bytes and is left out.`;
  if (total + found.size > MAX_TOTAL_BYTES) return "It is left out: too much has changed.";
  const readable = await access(path, constants.R_OK).then(
    () => true,
    () => false,
  );
  return readable ? undefined : "It cannot be read.";
}

/** A repository in the working tree counts by its commit alone. */
async function isNested(folder: string, { signal }: StageOptions): Promise<boolean> {
  const nested = await findRepository(folder, { confined: false }).catch(() => undefined);
  return nested !== undefined && (await readHeadCommit(nested, { signal })) !== undefined;
}
