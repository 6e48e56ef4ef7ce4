import { spawn } from "node:child_process";
import { once } from "node:events";
import { lstatSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect } from "vitest";
import type { FileChange } from "../../../src/sandbox/watch/changes.ts";
import { createWatcher, type Watcher, type WatcherOptions } from "../../../src/sandbox/watch/watcher.ts";

const folders: string[] = [];
const watchers: Watcher[] = [];

afterEach(async () => {
  for (const watcher of watchers.splice(0)) await watcher.stop();
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true, maxRetries: 3 });
});

export async function makeTree(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-watch-"));
  folders.push(folder);
  return folder;
}

export async function startWatcher(folder: string, options: Partial<WatcherOptions> = {}): Promise<Watcher> {
  const watcher = createWatcher({ folder, ...options });
  watchers.push(watcher);
  await watcher.ready;
  return watcher;
}

/** Every file and symlink with its content. */
export type Tree = Map<string, string>;

export function readTree(folder: string, below = "", tree: Tree = new Map()): Tree {
  for (const name of readdirSync(join(folder, below))) {
    if (name === ".git" || name === "node_modules") continue;
    const path = below === "" ? name : `${below}/${name}`;
    const found = lstatSync(join(folder, path));
    if (found.isDirectory()) readTree(folder, path, tree);
    else if (found.isSymbolicLink()) tree.set(path, `-> ${readlinkSync(join(folder, path))}`);
    else if (found.isFile())
      tree.set(path, `${found.mode & 0o111}:${readFileSync(join(folder, path), "utf8")}`);
  }
  return tree;
}

/** A reader that knows the tree by its events alone: it reads a file when it is told of it, and never else. */
export class Mirror {
  readonly tree: Tree;
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
    this.tree = readTree(folder);
  }

  apply(changes: readonly FileChange[]): void {
    const now = readTree(this.#folder);
    const wrong: FileChange[] = [];
    for (const change of changes) {
      const { type, path, timestamp } = change;
      // A file that is created must be new to the reader, and one that changes or goes must be known to it.
      const known = this.tree.has(path) === (type !== "create");
      if (!known || !Number.isSafeInteger(timestamp)) wrong.push(change);
      if (type === "delete") this.tree.delete(path);
      // It may be gone by now; then the reader is still to be told.
      else this.tree.set(path, now.get(path) ?? "gone");
    }
    expect(wrong.slice(0, 10)).toEqual([]);
  }

  expectEqual(): void {
    const real = readTree(this.#folder);
    const wrong = [...new Set([...real.keys(), ...this.tree.keys()])].filter(
      (path) => real.get(path) !== this.tree.get(path),
    );
    expect(wrong.slice(0, 10)).toEqual([]);
  }
}

export function count(changes: readonly FileChange[]): Record<FileChange["type"], number> {
  const counts = { create: 0, change: 0, delete: 0 };
  for (const { type } of changes) counts[type] += 1;
  return counts;
}

/** The changes that a waiting reader gets, up to this many paths. */
export async function takeLive(watcher: Watcher, paths: number): Promise<FileChange[]> {
  const signal = AbortSignal.timeout(50_000);
  const changes: FileChange[] = [];
  const seen = new Set<string>();
  while (seen.size < paths) {
    await watcher.moved({ signal });
    for (const change of watcher.take()) {
      changes.push(change);
      seen.add(change.path);
    }
  }
  return changes;
}

/** Another process that does something to the files, as agents do. */
export async function run(program: string, args: readonly string[], cwd: string): Promise<void> {
  const child = spawn(program, args, { cwd, stdio: ["ignore", "ignore", "pipe"], env: GIT_ENV });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new Error(`${program} ${args.join(" ")} failed: ${stderr}`);
}

export const GIT_ENV = {
  PATH: process.env["PATH"],
  HOME: "/nonexistent",
  LC_ALL: "C",
  GIT_CONFIG_NOSYSTEM: "1",
  // Nothing in the background that would outlive a test.
  GIT_CONFIG_COUNT: "1",
  GIT_CONFIG_KEY_0: "gc.auto",
  GIT_CONFIG_VALUE_0: "0",
  GIT_AUTHOR_NAME: "a",
  GIT_AUTHOR_EMAIL: "a@localhost",
  GIT_COMMITTER_NAME: "a",
  GIT_COMMITTER_EMAIL: "a@localhost",
};
