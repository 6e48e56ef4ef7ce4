import { readdirSync } from "node:fs";
import { chmod, mkdir, readdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { readHeadFile } from "../../../src/sandbox/diff/private-repository.ts";
import { workspaceDiff } from "../../../src/sandbox/diff/workspace-diff.ts";
import {
  diffOf,
  expected,
  fingerprint,
  folders,
  git,
  makeFolder,
  makeRepository,
  pathBefore,
  reasonFor,
  write,
} from "./bench.ts";

afterEach(async () => {
  process.env["PATH"] = pathBefore;
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true });
});

describe("the diff of a workspace", () => {
  it("equals git's own, with new, changed, moved and deleted files, and leaves the repository unchanged", async () => {
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

  it("sees a change that keeps size and second, and none in a file that was rewritten unchanged", async () => {
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

  it("can compare with an earlier commit, so that it includes the agent's commits", async () => {
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

  it("ends with its time limit, at whatever moment that comes", async () => {
    const folder = await makeRepository({ a: "1\n" });
    await write(folder, { a: "2\n" });
    for (let ms = 1; ms < 90; ms += 5) {
      const limits = [0, 1, 2, 3, 4].map((more) => AbortSignal.timeout(ms + more));
      const settled = Promise.allSettled(limits.map((signal) => workspaceDiff(folder, { signal })));
      expect(await settled).toHaveLength(limits.length);
    }
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
