import { chmodSync, lstatSync, readFileSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { look, makeBench, plant, settle } from "./bench.ts";

describe("a restore", () => {
  it("touches only differing files", async () => {
    const bench = makeBench();
    plant(bench.workspace, {
      same: "same",
      "d/same": "same too",
      changed: "before",
      gone: "gone",
      mode: "m",
      "kind/x": "x",
    });
    symlinkSync("same", join(bench.workspace, "link"));
    const { info } = await bench.checkpoints.checkpoint({ roots: bench.roots });
    const before = look(bench.workspace);
    const inode = (path: string): number => lstatSync(join(bench.workspace, path)).ino;
    const inodes = ["same", "d/same", "d", "link", "mode"].map(inode);
    const ctime = lstatSync(join(bench.workspace, "d/same")).ctimeMs;
    plant(bench.workspace, { changed: "after!", extra: "x", "more/deep/extra": "x" });
    rmSync(join(bench.workspace, "gone"));
    chmodSync(join(bench.workspace, "mode"), 0o755);
    rmSync(join(bench.workspace, "kind"), { recursive: true });
    writeFileSync(join(bench.workspace, "kind"), "a file where a folder was");
    const { work } = await bench.checkpoints.restore(info.id, { roots: bench.roots });
    expect(look(bench.workspace)).toEqual(before);
    expect(["same", "d/same", "d", "link", "mode"].map(inode)).toEqual(inodes);
    expect(lstatSync(join(bench.workspace, "d/same")).ctimeMs).toBe(ctime);
    expect(work).toMatchObject({ files: 6, filesWritten: 3, removed: 5 });
    const idle = await bench.checkpoints.restore(info.id, { roots: bench.roots });
    expect(idle.work).toMatchObject({ filesWritten: 0, removed: 0 });
  });

  it("finds a change that hides behind the same size and time", async () => {
    const bench = makeBench();
    plant(bench.workspace, { a: "one", b: "two" });
    await settle();
    const { info } = await bench.checkpoints.checkpoint({ roots: bench.roots });
    writeFileSync(join(bench.workspace, "a"), "eno");
    utimesSync(join(bench.workspace, "a"), 1_700_000_000, 1_700_000_000);
    const { work } = await bench.checkpoints.restore(info.id, { roots: bench.roots });
    expect(work).toMatchObject({ filesRead: 1, filesWritten: 1 });
    expect(readFileSync(join(bench.workspace, "a"), "utf8")).toBe("one");
    // The restored files are in the cache, so the next checkpoint reads nothing.
    expect((await bench.checkpoints.checkpoint({ roots: bench.roots })).work.filesRead).toBe(0);
  });

  it("never removes excluded files", async () => {
    const bench = makeBench();
    plant(bench.workspace, { keep: "1" });
    plant(bench.home, { ".claude/settings.json": "{}" });
    const { info } = await bench.checkpoints.checkpoint({ roots: bench.roots });
    plant(bench.workspace, {
      "node_modules/m/index.js": "m",
      "temp/t": "t",
      "new/.venv/bin/python": "p",
      "new/x": "x",
    });
    plant(bench.home, { ".claude/.credentials.json": "token", ".ssh/id": "key" });
    await bench.checkpoints.restore(info.id, { roots: bench.roots });
    expect(Object.keys(look(bench.workspace))).toEqual([
      "keep",
      "new",
      "new/.venv",
      "new/.venv/bin",
      "new/.venv/bin/python",
      "node_modules",
      "node_modules/m",
      "node_modules/m/index.js",
      "temp",
      "temp/t",
    ]);
    expect(readFileSync(join(bench.home, ".claude/.credentials.json"), "utf8")).toBe("token");
    expect(readFileSync(join(bench.home, ".ssh/id"), "utf8")).toBe("key");
    plant(bench.workspace, { "was/a/file": "" });
    rmSync(join(bench.workspace, "keep"));
    plant(bench.workspace, { "keep/node_modules/m": "in the way" });
    await expect(bench.checkpoints.restore(info.id, { roots: bench.roots })).rejects.toThrow(
      /keep.*never removes/,
    );
    expect(readFileSync(join(bench.workspace, "was/a/file"), "utf8")).toBe("");
  });

  it("goes into write-protected folders and leaves them so", async () => {
    const bench = makeBench();
    plant(bench.workspace, { "locked/in/file": "1", "locked/other": "2" });
    chmodSync(join(bench.workspace, "locked/in/file"), 0o444);
    chmodSync(join(bench.workspace, "locked/in"), 0o555);
    chmodSync(join(bench.workspace, "locked"), 0o555);
    const before = look(bench.workspace);
    const { info } = await bench.checkpoints.checkpoint({ roots: bench.roots });
    chmodSync(join(bench.workspace, "locked"), 0o755);
    chmodSync(join(bench.workspace, "locked/in"), 0o755);
    plant(bench.workspace, { "locked/in/extra": "x" });
    rmSync(join(bench.workspace, "locked/in/file"));
    chmodSync(join(bench.workspace, "locked/in"), 0o555);
    await bench.checkpoints.restore(info.id, { roots: bench.roots });
    expect(look(bench.workspace)).toEqual(before);
  });

  it.runIf(process.getuid?.() === 0)("gives new files to the owner of the root", async () => {
    const bench = makeBench();
    plant(bench.workspace, { "d/file": "1", long: Buffer.alloc(3_000_000) });
    symlinkSync("d", join(bench.workspace, "link"));
    const { info } = await bench.checkpoints.checkpoint({ roots: bench.roots });
    const fresh = join(bench.folder, "fresh");
    const owner = { uid: 12345, gid: 23456 };
    await bench.checkpoints.restore(info.id, { roots: { workspace: fresh }, owner });
    for (const path of ["d", "d/file", "long", "link"])
      expect(lstatSync(join(fresh, path))).toMatchObject(owner);
  });
});
