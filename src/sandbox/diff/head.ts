import { join } from "node:path";
import type { Confinement } from "./confinement.ts";
import { findGit, runGit, toGitEnvironment } from "./git.ts";
import { readRegular, readSmall, type Repository } from "./repository.ts";

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

/** The commit that is checked out; nothing before the first one. */
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

/** Repositories whose references are in a table of git's own. It reads their settings, so it is kept from all else. */
async function askGit(
  { gitDir }: Repository,
  { signal, confinement }: HeadOptions,
): Promise<string | undefined> {
  const git = findGit();
  if (git === undefined) return undefined;
  const cwd = confinement.at(gitDir);
  const env = { ...toGitEnvironment("/nonexistent"), GIT_DIR: cwd };
  const args = ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"];
  const { stdout } = await runGit(git, args, { cwd, env, signal, confinement });
  const name = stdout.toString("latin1").trim();
  return isObjectName(name) ? name : undefined;
}
