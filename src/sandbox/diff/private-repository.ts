import { lchown, mkdir, mkdtemp, readdir, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Owner } from "../port.ts";
import {
  buildGitEnvironment,
  createConfinement,
  escapePath,
  findGit,
  runGit,
  UNCONFINED,
  type Confinement,
  type GitResult,
  type GitRun,
} from "./git.ts";
import {
  EMPTY_TREES,
  findRepository,
  readHeadCommit,
  readRegular,
  readSmall,
  Unavailable,
  type FindOptions,
  type ObjectFormat,
  type Repository,
} from "./repository.ts";

/** A larger file counts as binary: nobody reads a diff of that length. */
export const BIG_FILE_BYTES = 5 * 1024 * 1024;
const MAX_INDEX_BYTES = 128 * 1024 * 1024;

/**
 * A git folder of our own that reads the objects of a user's repository. It writes nothing to that repository and uses
 * none of its settings.
 */
export interface PrivateRepository {
  readonly confinement: Confinement;
  /** The commit that is checked out, or the empty tree before the first one. */
  readonly head: string;
  /** Whether it starts with a copy of the user's index; else without an index. */
  readonly hasIndex: boolean;
  /** Runs git with the user's objects, which it only reads. */
  read(args: readonly string[], options?: { maxBytes?: number }): Promise<GitResult>;
  /** Runs git without the user's objects: a write would update the time of an object that exists there. */
  write(args: readonly string[], input: string): Promise<GitResult>;
  /** Makes a new index from the commit. */
  reset(): Promise<void>;
}

interface PrivateOptions extends FindOptions {
  readonly signal: AbortSignal;
  readonly scratch?: string | undefined;
  /** The owner of the folder, where that is not the server's own user: git runs as the owner. */
  readonly owner?: Owner | undefined;
}

export async function withPrivateRepository<T>(
  folder: string,
  options: PrivateOptions,
  work: (repository: PrivateRepository) => Promise<T>,
): Promise<T> {
  const { signal } = options;
  const git = findGit();
  if (git === undefined) throw new Unavailable("git is not installed");
  const theirs = await findRepository(folder, options);
  if (!theirs) throw new Unavailable("it is not a git repository");
  const gitDir = await mkdtemp(join(options.scratch ?? tmpdir(), "sluice-diff-"));
  try {
    const { worktree, objects } = theirs;
    const { owner } = options;
    if (owner !== undefined) await giveAway(gitDir, owner);
    const confinement = options.confined
      ? await createConfinement({ git, worktree, objects, gitDir, owner })
      : UNCONFINED;
    const { toInner } = confinement;
    const run = { confinement, signal };
    const settings = await readSettings(git, theirs, {
      ...run,
      cwd: toInner(gitDir),
      env: buildGitEnvironment(toInner(gitDir)),
    });
    const format: ObjectFormat = settings.get("extensions.objectformat") === "sha256" ? "sha256" : "sha1";
    const head = (await readHeadCommit(theirs, run)) ?? EMPTY_TREES[format];
    const hasIndex = await make(gitDir, theirs, toConfig(settings, format));
    if (owner !== undefined) await giveAway(gitDir, owner);
    const env = {
      ...buildGitEnvironment(toInner(gitDir)),
      GIT_DIR: toInner(gitDir),
      GIT_WORK_TREE: toInner(worktree),
    };
    const reading = { ...env, GIT_ALTERNATE_OBJECT_DIRECTORIES: `"${escapePath(toInner(objects))}"` };
    const cwd = toInner(folder);
    const read: PrivateRepository["read"] = (args, more) =>
      runGit(git, args, { ...run, cwd, env: reading, ...more });
    return await work({
      confinement,
      head,
      hasIndex,
      read,
      write: (args, input) => runGit(git, args, { ...run, cwd, env, input }),
      async reset() {
        await rm(join(gitDir, "index"), { force: true });
        await read(["read-tree", head]);
      },
    });
  } finally {
    await rm(gitDir, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** Fills the private git folder; returns whether it has a copy of the user's index. */
async function make(gitDir: string, theirs: Repository, config: string): Promise<boolean> {
  await mkdir(join(gitDir, "objects"));
  await mkdir(join(gitDir, "refs"));
  await mkdir(join(gitDir, "info"));
  await writeFile(join(gitDir, "HEAD"), "ref: refs/heads/none\n");
  await writeFile(join(gitDir, "config"), config);
  for (const name of ["info/exclude", "info/attributes"]) {
    const text = await readSmall(join(theirs.commonDir, name));
    if (text !== undefined) await writeFile(join(gitDir, name), text);
  }
  // The user's index knows which files are unchanged, and which ones are left out on purpose.
  const shared = (await readdir(theirs.gitDir)).filter((name) => name.startsWith("sharedindex."));
  for (const name of shared) await copyIndex(join(theirs.gitDir, name), join(gitDir, name));
  return copyIndex(join(theirs.gitDir, "index"), join(gitDir, "index"));
}

async function copyIndex(from: string, to: string): Promise<boolean> {
  const index = await readRegular(from, MAX_INDEX_BYTES);
  if (!index) return false;
  await writeFile(to, index.bytes);
  // git compares a file's time with the age of the index. A younger index would hide changes.
  const time = Math.floor(index.mtimeMs) / 1000;
  await utimes(to, time, time);
  return true;
}

/** The settings in the repository's config file, without its includes. */
async function readSettings(
  git: string,
  { commonDir }: Repository,
  run: GitRun,
): Promise<Map<string, string>> {
  const file = join(run.confinement.toInner(commonDir), "config");
  const args = ["config", "--file", file, "--no-includes", "--null", "--list"];
  const { stdout } = await runGit(git, args, run);
  const entries = stdout.toString("utf8").split("\0").filter(Boolean);
  return new Map(
    entries.map((entry) => [entry.split("\n", 1)[0] ?? "", entry.slice(entry.indexOf("\n") + 1)]),
  );
}

/** Gives the private folder to the owner, because git runs as the owner. No other user can reach it. */
async function giveAway(gitDir: string, owner: Owner): Promise<void> {
  const names = await readdir(gitDir, { recursive: true });
  for (const path of [gitDir, ...names.map((name) => join(gitDir, name))]) {
    await lchown(path, owner.uid, owner.gid);
  }
}

/** The settings that change how files compare. They are taken over if their value is known; all others are our own. */
const TAKEN_OVER: Readonly<Record<string, RegExp>> = {
  "core.autocrlf": /^(?:true|false|input)$/i,
  "core.eol": /^(?:lf|crlf|native)$/i,
  "core.filemode": /^(?:true|false)$/i,
  "core.ignorecase": /^(?:true|false)$/i,
  "core.symlinks": /^(?:true|false)$/i,
  "core.precomposeunicode": /^(?:true|false)$/i,
};

function toConfig(settings: ReadonlyMap<string, string>, format: ObjectFormat): string {
  const taken = Object.entries(TAKEN_OVER).flatMap(([key, known]) => {
    const value = settings.get(key);
    return value !== undefined && known.test(value) ? [`\t${key.slice("core.".length)} = ${value}`] : [];
  });
  return [
    "[core]",
    `\trepositoryformatversion = ${format === "sha1" ? 0 : 1}`,
    "\tbare = false",
    ...taken,
    "\thooksPath = /dev/null",
    "\tfsmonitor = false",
    "\tuntrackedCache = false",
    "\tsplitIndex = false",
    "\tsafecrlf = false",
    "\texcludesFile = /dev/null",
    "\tattributesFile = /dev/null",
    "\tlooseCompression = 1",
    `\tbigFileThreshold = ${BIG_FILE_BYTES}`,
    ...(format === "sha1" ? [] : ["[extensions]", `\tobjectformat = ${format}`]),
    "",
  ].join("\n");
}

const TIMEOUT_MS = 5_000;

/** A file's content in the commit that is checked out; undefined where it has none or git cannot read it. */
export async function readHeadFile(
  folder: string,
  path: string,
  options: { maxBytes: number; confined?: boolean; owner?: Owner | undefined },
): Promise<Buffer | undefined> {
  const { maxBytes, confined = true, owner } = options;
  const find = { confined, owner, signal: AbortSignal.timeout(TIMEOUT_MS) };
  return withPrivateRepository(folder, find, async ({ head, read }) => {
    const { code, stdout, cut } = await read(["cat-file", "blob", `${head}:./${path}`], { maxBytes });
    return code === 0 && !cut ? stdout : undefined;
  }).catch(() => undefined);
}
