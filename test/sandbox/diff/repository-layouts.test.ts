import { readdirSync } from "node:fs";
import { chmod, cp, mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
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

describe("the diff of a workspace, by layout of the repository", () => {
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

  it("leaves out the excluded files of a sparse checkout", async () => {
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
});
