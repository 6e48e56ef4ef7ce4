import { lchown, mkdir, mkdtemp, readdir, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Owner } from "../host/owner.ts";
import { toConfinement, UNCONFINED, type Confinement } from "./confinement.ts";
import { findGit, runGit, toGitEnvironment, type GitResult, type GitRun } from "./git.ts";
import { EMPTY_TREES, readHeadCommit, type ObjectFormat } from "./head.ts";
import { escapePath } from "./quote.ts";
import { findRepository, readRegular, readSmall, type FindOptions, type Repository } from "./repository.ts";
import { Unavailable } from "./unavailable.ts";

/** A file over it is taken for binary: nobody reads so long a diff. */
export const BIG_FILE_BYTES = 5 * 1024 * 1024;
const MAX_INDEX_BYTES = 128 * 1024 * 1024;

/** A git folder of our own over another one's objects: nothing of ours gets there, none of its settings get here. */
export interface PrivateRepository {
  readonly confinement: Confinement;
  /** The commit that is checked out, or the empty tree before the first one. */
  readonly head: string;
  /** Whether it starts from the index of theirs; else from nothing. */
  readonly hasIndex: boolean;
  /** Reads their objects, writes none. */
  read(args: readonly string[], options?: { maxBytes?: number }): Promise<GitResult>;
  /** Knows nothing of their objects: git sets the time of an object that it is to write and finds there. */
  write(args: readonly string[], input: string): Promise<GitResult>;
  /** Starts the index anew from the commit. */
  reset(): Promise<void>;
}

export interface PrivateOptions extends FindOptions {
  readonly signal: AbortSignal;
  readonly scratch?: string | undefined;
  /** Whose the folder is, where that is not the server's own user: git runs as they do. */
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
  const place = await mkdtemp(join(options.scratch ?? tmpdir(), "sluice-diff-"));
  try {
    const { worktree, objects } = theirs;
    const { owner } = options;
    if (owner !== undefined) await giveAway(place, owner);
    const confinement = options.confined
      ? await toConfinement({ git, worktree, objects, place, owner })
      : UNCONFINED;
    const { at } = confinement;
    const run = { confinement, signal };
    const settings = await readSettings(git, theirs, {
      ...run,
      cwd: at(place),
      env: toGitEnvironment(at(place)),
    });
    const format: ObjectFormat = settings.get("extensions.objectformat") === "sha256" ? "sha256" : "sha1";
    const head = (await readHeadCommit(theirs, run)) ?? EMPTY_TREES[format];
    const hasIndex = await make(place, theirs, toConfig(settings, format));
    if (owner !== undefined) await giveAway(place, owner);
    const env = { ...toGitEnvironment(at(place)), GIT_DIR: at(place), GIT_WORK_TREE: at(worktree) };
    const reading = { ...env, GIT_ALTERNATE_OBJECT_DIRECTORIES: `"${escapePath(at(objects))}"` };
    const cwd = at(folder);
    const read: PrivateRepository["read"] = (args, more) =>
      runGit(git, args, { ...run, cwd, env: reading, ...more });
    return await work({
      confinement,
      head,
      hasIndex,
      read,
      write: (args, input) => runGit(git, args, { ...run, cwd, env, input }),
      async reset() {
        await rm(join(place, "index"), { force: true });
        await read(["read-tree", head]);
      },
    });
  } finally {
    await rm(place, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** Answers whether there was an index to start from. */
async function make(place: string, theirs: Repository, config: string): Promise<boolean> {
  await mkdir(join(place, "objects"));
  await mkdir(join(place, "refs"));
  await mkdir(join(place, "info"));
  await writeFile(join(place, "HEAD"), "ref: refs/heads/none\n");
  await writeFile(join(place, "config"), config);
  for (const name of ["info/exclude", "info/attributes"]) {
    const text = await readSmall(join(theirs.commonDir, name));
    if (text !== undefined) await writeFile(join(place, name), text);
  }
  // Their index knows which files are as they were, and which ones are left out on purpose.
  const shared = (await readdir(theirs.gitDir)).filter((name) => name.startsWith("sharedindex."));
  for (const name of shared) await copyIndex(join(theirs.gitDir, name), join(place, name));
  return copyIndex(join(theirs.gitDir, "index"), join(place, "index"));
}

async function copyIndex(from: string, to: string): Promise<boolean> {
  const index = await readRegular(from, MAX_INDEX_BYTES);
  if (!index) return false;
  await writeFile(to, index.bytes);
  // By its age git knows which files may have changed unnoticed since: a younger one would hide them.
  const time = Math.floor(index.mtimeMs) / 1000;
  await utimes(to, time, time);
  return true;
}

/** Read from the file alone: nothing that it includes, nothing that it could make git do. */
async function readSettings(
  git: string,
  { commonDir }: Repository,
  run: GitRun,
): Promise<Map<string, string>> {
  const file = join(run.confinement.at(commonDir), "config");
  const args = ["config", "--file", file, "--no-includes", "--null", "--list"];
  const { stdout } = await runGit(git, args, run);
  const entries = stdout.toString("utf8").split("\0").filter(Boolean);
  return new Map(
    entries.map((entry) => [entry.split("\n", 1)[0] ?? "", entry.slice(entry.indexOf("\n") + 1)]),
  );
}

/** The private folder is for git to write in, and git is the owner's. Nobody else can reach it. */
async function giveAway(place: string, owner: Owner): Promise<void> {
  const names = await readdir(place, { recursive: true });
  for (const path of [place, ...names.map((name) => join(place, name))]) {
    await lchown(path, owner.uid, owner.gid);
  }
}

/** How files are to be compared, by words that we know; all else is our own. */
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
