import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { lstatSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { chmod, cp, mkdir, mkdtemp, readdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { readHeadFile } from "../../src/sandbox/diff/headFile.ts";
import { workspaceDiff } from "../../src/sandbox/diff/workspaceDiff.ts";

const folders: string[] = [];
const pathBefore = process.env["PATH"];

afterEach(async () => {
  process.env["PATH"] = pathBefore;
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true });
});

async function makeFolder(): Promise<string> {
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

function git(folder: string, ...args: string[]): string {
  return execFileSync("git", args, {
    cwd: folder,
    env: ENV,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  });
}

async function makeRepository(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await makeFolder();
  git(folder, "init", "-q", "-b", "main");
  await write(folder, files);
  git(folder, "add", "-A");
  git(folder, "commit", "-qm", "first");
  return folder;
}

async function write(folder: string, files: Readonly<Record<string, string>>): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    await mkdir(join(folder, path, ".."), { recursive: true });
    await writeFile(join(folder, path), content);
  }
}

/** What git itself says in a copy, where it may do as it likes. */
async function expected(folder: string): Promise<string> {
  const copy = join(await makeFolder(), "copy");
  await cp(folder, copy, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true });
  git(copy, "add", "-A");
  return git(copy, "diff", "--cached", "HEAD");
}

/** Every name, content, mode and time below a folder. */
function fingerprint(folder: string): string {
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

async function diffOf(folder: string, options: Parameters<typeof workspaceDiff>[1] = {}): Promise<string> {
  const reasons: string[] = [];
  const result = await workspaceDiff(folder, { explain: (reason) => reasons.push(reason), ...options });
  expect(reasons).toEqual([]);
  return result?.diff ?? "no diff";
}

async function reasonFor(folder: string, options: Parameters<typeof workspaceDiff>[1] = {}): Promise<string> {
  let reason = "";
  expect(await workspaceDiff(folder, { ...options, explain: (text) => (reason = text) })).toBeUndefined();
  return reason;
}

describe("the diff of a workspace", () => {
  it("is what git shows, new, changed, moved and deleted files in one, and leaves the repository as it is", async () => {
    const lines = Array.from({ length: 40 }, (_, index) => `line ${index}\n`);
    const folder = await makeRepository({
      "changed.txt": lines.join(""),
      "gone.txt": "gone\n",
      "moved.txt": lines.toReversed().join(""),
      "same.txt": "same\n",
      "script.sh": "echo\n",
      ".gitignore": "*.log\nbuild/\n",
      "staged.txt": "1\n",
      "folder/file": "1\n",
    });
    await write(folder, {
      "changed.txt": lines.with(3, "three\n").with(35, "thirty-five").join(""),
      "new/deep/file.txt": "new\n",
      "empty.txt": "",
      "ignored.log": "no",
      "build/out": "no",
      "staged.txt": "2\n",
      "forced.log": "yes\n",
    });
    git(folder, "add", "staged.txt");
    git(folder, "add", "-f", "forced.log");
    await write(folder, { "staged.txt": "3\n" });
    await rm(join(folder, "gone.txt"));
    await mkdir(join(folder, "sub"));
    await rename(join(folder, "moved.txt"), join(folder, "sub/renamed.txt"));
    await chmod(join(folder, "script.sh"), 0o755);
    await symlink("same.txt", join(folder, "link"));
    await rm(join(folder, "folder"), { recursive: true });
    await write(folder, { folder: "a file now\n" });
    const before = fingerprint(folder);
    const place = await makeFolder();
    const diff = await diffOf(folder, { scratch: place });
    expect(await readdir(place)).toEqual([]);
    expect(fingerprint(folder)).toBe(before);
    expect(diff).toBe(await expected(folder));
    for (const part of [
      "+three",
      "new/deep/file.txt",
      "rename to sub/renamed.txt",
      "new mode 100755",
      "+3",
    ]) {
      expect(diff).toContain(part);
    }
    expect(diff).not.toContain("ignored.log");
  });

  it("is empty where nothing changed", async () => {
    expect(await diffOf(await makeRepository({ a: "1\n" }))).toBe("");
  });

  it("sees a change that leaves size and second alone, and none in what was only written anew", async () => {
    const folder = await makeRepository({ "a.txt": "1\n", "b.txt": "1\n" });
    for (let round = 0; round < 8; round++) {
      await write(folder, { "a.txt": `${round}\n`, "b.txt": "1\n" });
      expect(await diffOf(folder)).toBe(await expected(folder));
      git(folder, "commit", "-qam", "more", "--allow-empty");
      await write(folder, { "a.txt": "x\n", "b.txt": "1\n" });
      expect(await diffOf(folder)).toMatch(/^diff --git a\/a.txt b\/a.txt\n.*\n.*\n.*\n.*\n-\d\n\+x\n$/);
    }
  });

  it("shows files in conflict as they are", async () => {
    const folder = await makeRepository({ "a.txt": "1\n", "b.txt": "1\n" });
    git(folder, "checkout", "-qb", "other");
    await write(folder, { "a.txt": "other\n" });
    await rm(join(folder, "b.txt"));
    git(folder, "commit", "-qam", "other");
    git(folder, "checkout", "-q", "main");
    await write(folder, { "a.txt": "main\n", "b.txt": "main\n" });
    git(folder, "commit", "-qam", "main");
    expect(() => git(folder, "merge", "-q", "other")).toThrow();
    const diff = await diffOf(folder);
    expect(diff).toBe(await expected(folder));
    expect(diff).toContain("+<<<<<<< HEAD");
  });

  it("has no limit to the names of files", async () => {
    const names = [
      "with space",
      'quo"te',
      "new\nline",
      "tab\there",
      "äöü/日本",
      "-dash",
      ":colon",
      "back\\slash",
      "*",
    ];
    const folder = await makeRepository(Object.fromEntries(names.map((name) => [name, "1\n"])));
    await write(
      folder,
      Object.fromEntries(
        names.flatMap((name) => [
          [name, "2\n"],
          [`${name}2`, "new\n"],
        ]),
      ),
    );
    expect(await diffOf(folder)).toBe(await expected(folder));
    expect(await readHeadFile(folder, "äöü/日本", { maxBytes: 100 })).toEqual(Buffer.from("1\n"));
    expect(await readHeadFile(folder, "new\nline", { maxBytes: 100 })).toEqual(Buffer.from("1\n"));
    expect(await readHeadFile(folder, "nothing", { maxBytes: 100 })).toBeUndefined();
  });

  it("compares with nothing before the first commit", async () => {
    const folder = await makeFolder();
    git(folder, "init", "-q");
    expect(await diffOf(folder)).toBe("");
    await write(folder, { "a.txt": "1\n", "b/c": "2\n" });
    git(folder, "add", "a.txt");
    const diff = await diffOf(folder);
    expect(diff).toContain("diff --git a/a.txt b/a.txt\nnew file mode 100644");
    expect(diff).toContain("+++ b/b/c\n@@ -0,0 +1 @@\n+2\n");
  });

  it("can compare with an earlier commit, so that what the agent committed is in it", async () => {
    const folder = await makeRepository({ a: "1\n" });
    const base = git(folder, "rev-parse", "HEAD").trim();
    await write(folder, { a: "2\n" });
    git(folder, "commit", "-qam", "second");
    await write(folder, { b: "new\n" });
    expect(await diffOf(folder)).not.toContain("a/a");
    const whole = await diffOf(folder, { base });
    expect(whole).toContain("-1\n+2\n");
    expect(whole).toContain("+new\n");
    expect(await reasonFor(folder, { base: "--output=/tmp/x" })).toContain("not the name of a commit");
  });

  it("says of binary files that they differ, and no more", async () => {
    const folder = await makeRepository({ "a.bin": "a\0b", "b.bin": "\0" });
    await writeFile(join(folder, "a.bin"), Buffer.from([0, 1, 2, 255]));
    await writeFile(join(folder, "c.bin"), Buffer.from([0, 1]));
    await rm(join(folder, "b.bin"));
    const diff = await diffOf(folder);
    expect(diff).toBe(await expected(folder));
    expect(diff).toContain("Binary files a/a.bin and b/a.bin differ\n");
  });

  it("leaves out the content of huge files, with a note, and ends early when it is too long", async () => {
    const folder = await makeRepository({
      "big.txt": "x\n".repeat(3_000_000),
      "gone.txt": "y\n".repeat(3_000_000),
      small: "1\n",
    });
    await write(folder, {
      "big.txt": "z\n".repeat(3_000_000),
      "new big.txt": "z\n".repeat(3_000_000),
      small: "2\n",
    });
    await rm(join(folder, "gone.txt"));
    const result = await workspaceDiff(folder);
    expect(result?.omitted.map(({ path, isNew }) => [path, isNew])).toEqual([
      ["big.txt", false],
      ["new big.txt", true],
    ]);
    expect(result?.diff.length).toBeLessThan(2_000);
    expect(result?.diff).toContain("Binary files a/big.txt and b/big.txt differ\n# It has 6000000 bytes");
    expect(result?.diff).toContain("Binary files /dev/null and b/new big.txt differ\n");
    expect(result?.diff).toContain("Binary files a/gone.txt and /dev/null differ\n");
    expect(result?.diff).toContain("-1\n+2\n");

    const many = await makeRepository({ a: "1\n" });
    await write(
      many,
      Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`f${index}`, "line\n".repeat(100)])),
    );
    const cut = await workspaceDiff(many, { maxDiffBytes: 5_000 });
    expect(cut?.cut).toBe(true);
    expect(cut?.diff.length).toBeLessThan(5_200);
    expect(cut?.diff.trimEnd().split("\n").at(-1)).toContain("longer than 5000 bytes");
    expect(cut?.diff.match(/^diff --git/gm)?.length).toBe(
      cut?.diff.match(/^@@ -0,0 \+1,100 @@\n(?:\+line\n){100}/gm)?.length,
    );
  });

  it("works in a linked worktree, in a submodule and with one, and in a folder of a repository", async () => {
    const main = await makeRepository({ "a.txt": "1\n", "folder/b.txt": "1\n" });
    const worktree = join(await makeFolder(), "linked");
    git(main, "worktree", "add", "-q", worktree, "-b", "other");
    await write(worktree, { "a.txt": "2\n", new: "3\n" });
    const before = fingerprint(main);
    const diff = await diffOf(worktree);
    expect(fingerprint(main)).toBe(before);
    expect(diff).toContain("-1\n+2\n");
    expect(diff).toContain("b/new\n");

    const outer = await makeRepository({ "o.txt": "1\n" });
    git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", main, "sub");
    git(outer, "commit", "-qm", "with a submodule");
    await write(outer, { "sub/a.txt": "changed\n", "o.txt": "2\n" });
    const untouched = fingerprint(outer);
    expect(await diffOf(outer)).toBe(await expected(outer));
    expect(await diffOf(join(outer, "sub"))).toContain("-1\n+changed\n");
    expect(fingerprint(outer)).toBe(untouched);
    git(join(outer, "sub"), "commit", "-qam", "inside");
    const moved = await diffOf(outer);
    expect(moved).toContain("+Subproject commit");
    expect(moved).toBe(await expected(outer));

    await write(main, { "a.txt": "outside\n", "folder/b.txt": "inside\n", "folder/c.txt": "new\n" });
    expect(await reasonFor(join(main, "folder"))).toBe("it is not a git repository");
    const inside = await diffOf(join(main, "folder"), { search: true });
    expect(inside).toContain("+++ b/b.txt\n");
    expect(inside).toContain("+++ b/c.txt\n");
    expect(inside).not.toContain("outside");
  });

  it("takes a repository inside of the workspace for its commit, and one without commits for nothing", async () => {
    const folder = await makeRepository({ a: "1\n" });
    await cp(await makeRepository({ b: "1\n" }), join(folder, "cloned"), { recursive: true });
    const diff = await diffOf(folder);
    expect(diff).toBe(await expected(folder));
    expect(diff).toContain("+Subproject commit");
    await mkdir(join(folder, "fresh"));
    git(join(folder, "fresh"), "init", "-q");
    expect(await diffOf(folder)).toBe(diff);
  });

  it("leaves out what is left out of a sparse checkout", async () => {
    const folder = await makeRepository({ "in/a": "1\n", "out/b": "1\n", c: "1\n" });
    git(folder, "sparse-checkout", "set", "in");
    expect(readdirSync(folder)).not.toContain("out");
    await write(folder, { "in/a": "2\n" });
    const diff = await diffOf(folder);
    expect(diff).toContain("-1\n+2\n");
    expect(diff).not.toContain("out/b");
  });

  it("works without an index, with a broken one, and with one that is split", async () => {
    const folder = await makeRepository({ "a.txt": "1\n", "kept.log": "1\n" });
    await write(folder, { "a.txt": "2\n", ".gitignore": "*.log\n" });
    const diff = await diffOf(folder);
    await rm(join(folder, ".git/index"));
    expect(await diffOf(folder)).toBe(diff);
    await writeFile(join(folder, ".git/index"), "not an index");
    expect(await diffOf(folder)).toBe(diff);
    await rm(join(folder, ".git/index"));
    git(folder, "reset", "-q");
    git(folder, "update-index", "--split-index");
    expect(readdirSync(join(folder, ".git")).some((name) => name.startsWith("sharedindex."))).toBe(true);
    expect(await diffOf(folder)).toBe(diff);
  });

  it("follows the repository in how lines end and modes count", async () => {
    const folder = await makeRepository({ "a.txt": "1\n2\n", "b.sh": "1\n" });
    git(folder, "config", "core.autocrlf", "true");
    git(folder, "config", "core.fileMode", "false");
    await write(folder, { "a.txt": "1\r\n2\r\n" });
    await chmod(join(folder, "b.sh"), 0o755);
    expect(await diffOf(folder)).toBe("");
  });

  it("works with the other kind of object names", async () => {
    const folder = await makeFolder();
    git(folder, "init", "-q", "--object-format=sha256");
    await write(folder, { a: "1\n" });
    expect(await diffOf(folder)).toContain("+1\n");
    git(folder, "add", "-A");
    git(folder, "commit", "-qm", "1");
    await write(folder, { a: "2\n" });
    expect(await diffOf(folder)).toBe(await expected(folder));
  });

  it("says why there is none", async () => {
    expect(await reasonFor(await makeFolder())).toBe("it is not a git repository");
    const folder = await makeRepository({ a: "1\n" });
    await write(folder, { a: "2\n" });
    expect(await reasonFor(folder, { timeoutMs: 0 })).toBe("git took too long");
    await expect(workspaceDiff(folder, { signal: AbortSignal.abort(new Error("enough")) })).rejects.toThrow(
      "enough",
    );
    // Only a git of this machine counts, never one in the folder.
    await writeFile(join(folder, "git"), "#!/bin/sh\ntouch ran\n", { mode: 0o755 });
    process.env["PATH"] = `.:${join(folder, "nothing")}`;
    expect(await reasonFor(folder)).toBe("git is not installed");
    expect(readdirSync(folder)).not.toContain("ran");
  });
});
