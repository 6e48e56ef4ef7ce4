import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { lstatSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { cp, mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import { workspaceDiff } from "../../../src/sandbox/diff/workspace-diff.ts";

export const folders: string[] = [];

export const pathBefore = process.env["PATH"];

export async function makeFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-diffed-"));
  folders.push(folder);
  return folder;
}

const ENV = {
  PATH: process.env["PATH"],
  HOME: "/nonexistent",
  LC_ALL: "C",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_AUTHOR_NAME: "a",
  GIT_AUTHOR_EMAIL: "a@localhost",
  GIT_COMMITTER_NAME: "a",
  GIT_COMMITTER_EMAIL: "a@localhost",
  GIT_ALLOW_PROTOCOL: "file",
};

export function git(folder: string, ...args: string[]): string {
  return execFileSync("git", args, {
    cwd: folder,
    env: ENV,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  });
}

export async function makeRepository(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await makeFolder();
  git(folder, "init", "-q", "-b", "main");
  await write(folder, files);
  git(folder, "add", "-A");
  git(folder, "commit", "-qm", "first");
  return folder;
}

export async function write(folder: string, files: Readonly<Record<string, string>>): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    await mkdir(join(folder, path, ".."), { recursive: true });
    await writeFile(join(folder, path), content);
  }
}

/** The output of git itself, in a copy. */
export async function expected(folder: string): Promise<string> {
  const copy = join(await makeFolder(), "copy");
  await cp(folder, copy, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true });
  git(copy, "add", "-A");
  return git(copy, "diff", "--cached", "HEAD");
}

/** Every name, content, mode and time below a folder. */
export function fingerprint(folder: string): string {
  const hash = createHash("sha256");
  const visit = (path: string): void => {
    const found = lstatSync(path);
    hash.update(`${path}\0${found.mode}\0${found.mtimeMs}\0${found.size}\0`);
    if (found.isSymbolicLink()) hash.update(readlinkSync(path));
    else if (found.isDirectory()) for (const name of readdirSync(path).toSorted()) visit(join(path, name));
    else if (found.isFile()) hash.update(readFileSync(path));
  };
  visit(folder);
  return hash.digest("hex");
}

export async function diffOf(
  folder: string,
  options: Parameters<typeof workspaceDiff>[1] = {},
): Promise<string> {
  const reasons: string[] = [];
  const result = await workspaceDiff(folder, { explain: (reason) => reasons.push(reason), ...options });
  expect(reasons).toEqual([]);
  return result?.diff ?? "no diff";
}

export async function reasonFor(
  folder: string,
  options: Parameters<typeof workspaceDiff>[1] = {},
): Promise<string> {
  let reason = "";
  expect(await workspaceDiff(folder, { ...options, explain: (text) => (reason = text) })).toBeUndefined();
  return reason;
}
