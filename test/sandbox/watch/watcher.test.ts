import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { chmod, mkdir, open, rename, rm, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { CLOCK_TICK_MS } from "../../../src/sandbox/watch/tree.ts";
import { makeTree, Mirror, startWatcher, takeLive } from "./tree.ts";

const types = (changes: readonly { type: string; path: string }[]): string[] =>
  changes.map(({ type, path }) => `${type} ${path}`);

const ignore = (path: string): boolean => path === ".control" || path.endsWith(".tmp");

describe("the watcher", () => {
  it("reports files that are created, changed and deleted, with path and time, and nothing that was there before", async () => {
    const folder = await makeTree();
    await writeFile(join(folder, "old.txt"), "1");
    const watcher = await startWatcher(folder);
    const signal = AbortSignal.timeout(10_000);
    expect(watcher.take()).toEqual([]);

    const begun = Date.now();
    // Each step is one system call: a loaded machine may be held up between opening a file and writing to it.
    await writeFile(join(folder, "new.txt"), "");
    await watcher.moved({ signal });
    const [created, ...none] = watcher.take();
    expect(created).toEqual({ type: "create", path: "new.txt", timestamp: expect.any(Number) });
    expect(Number.isSafeInteger(created?.timestamp)).toBe(true);
    expect(created?.timestamp).toBeGreaterThanOrEqual(begun);
    expect(none).toEqual([]);

    await writeFile(join(folder, "old.txt"), "2", { flag: "r+" });
    await watcher.moved({ signal });
    expect(types(watcher.take())).toEqual(["change old.txt"]);

    await rm(join(folder, "old.txt"));
    await watcher.moved({ signal });
    expect(types(watcher.take())).toEqual(["delete old.txt"]);
    await watcher.flush();
    expect(watcher.take()).toEqual([]);
  });

  it("takes opening a file and writing to it for one change", async () => {
    const folder = await makeTree();
    await writeFile(join(folder, "known"), "1");
    const watcher = await startWatcher(folder);
    await sleep(150);
    let isPrompt = false;
    for (let name = 1; !isPrompt; name++) {
      const begun = performance.now();
      const files = await Promise.all([`${name}`, "known"].map((path) => open(join(folder, path), "w")));
      await sleep(5);
      for (const file of files) await file.writeFile("22");
      for (const file of files) await file.close();
      // A machine that was held up in between has really done two things.
      isPrompt = performance.now() - begun < CLOCK_TICK_MS - 2;
      const seen = types(await takeLive(watcher, 2)).toSorted();
      await watcher.flush();
      const later = watcher.take();
      if (isPrompt) expect({ seen, later }).toEqual({ seen: ["change known", `create ${name}`], later: [] });
    }
    // An empty file that stays so is reported all the same.
    await writeFile(join(folder, "empty"), "");
    expect(types(await takeLive(watcher, 1))).toEqual(["create empty"]);
  });

  it("keeps one change per path until it is taken", async () => {
    const folder = await makeTree();
    await writeFile(join(folder, "known"), "1");
    const watcher = await startWatcher(folder);
    const after = async (work: () => Promise<void>): Promise<void> => {
      await work();
      await watcher.flush();
    };
    await after(() => writeFile(join(folder, "a"), "1"));
    await after(() => writeFile(join(folder, "a"), "22"));
    await after(() => writeFile(join(folder, "b"), "1"));
    await after(() => rm(join(folder, "b")));
    await after(() => writeFile(join(folder, "known"), "22"));
    await after(() => writeFile(join(folder, "known"), "333"));
    expect(types(watcher.take())).toEqual(["create a", "change known"]);

    await after(() => rm(join(folder, "a")));
    await after(() => rm(join(folder, "known")));
    await after(() => writeFile(join(folder, "known"), "4"));
    expect(types(watcher.take())).toEqual(["delete a", "change known"]);
  });

  it("never looks at .git, node_modules and ignored paths", async () => {
    const folder = await makeTree();
    await mkdir(join(folder, "packages/a/node_modules/x"), { recursive: true });
    const watcher = await startWatcher(folder, { ignore });
    for (const path of [".git", "node_modules", ".control"]) {
      await mkdir(join(folder, path, "deep"), { recursive: true });
      await writeFile(join(folder, path, "deep/file"), "1");
    }
    await writeFile(join(folder, "packages/a/node_modules/x/file"), "1");
    await writeFile(join(folder, "packages/a/node.tmp"), "1");
    await writeFile(join(folder, "packages/a/seen"), "1");
    await watcher.flush();
    expect(types(watcher.take())).toEqual(["create packages/a/seen"]);
  });

  it("does not follow symlinks, and reports them as symlinks", async () => {
    const [folder, elsewhere] = [await makeTree(), await makeTree()];
    await writeFile(join(elsewhere, "there"), "1");
    await symlink(elsewhere, join(folder, "before"));
    const watcher = await startWatcher(folder);
    await symlink(elsewhere, join(folder, "link"));
    await symlink("nowhere", join(folder, "dangling"));
    await watcher.flush();
    expect(types(watcher.take()).toSorted()).toEqual(["create dangling", "create link"]);
    await writeFile(join(elsewhere, "there"), "22");
    await writeFile(join(elsewhere, "more"), "1");
    await watcher.flush();
    expect(watcher.take()).toEqual([]);
    await rm(join(folder, "link"));
    await symlink("other", join(folder, "link"));
    await watcher.flush();
    expect(types(watcher.take())).toEqual(["change link"]);
  });

  it("cannot be led outside by a folder that becomes a symlink while it is looked at", async () => {
    const [folder, elsewhere] = [await makeTree(), await makeTree()];
    for (let index = 0; index < 50; index++) await writeFile(join(elsewhere, `secret${index}`), "1");
    const watcher = await startWatcher(folder, { debounceMs: 0 });
    const swapping = spawn(
      process.execPath,
      [
        "-e",
        `const fs = require("node:fs"); const end = Date.now() + 1500;
         while (Date.now() < end) {
           fs.mkdirSync("d"); fs.writeFileSync("d/x", "1"); fs.renameSync("d", "e");
           fs.symlinkSync(${JSON.stringify(elsewhere)}, "d"); fs.unlinkSync("d"); fs.rmSync("e", { recursive: true });
         }`,
      ],
      { cwd: folder, stdio: "ignore" },
    );
    const ended = once(swapping, "close");
    const seen = new Set<string>();
    while (swapping.exitCode === null) {
      await watcher.flush();
      for (const { path } of watcher.take()) seen.add(path);
    }
    await ended;
    expect([...seen].filter((path) => path.includes("secret"))).toEqual([]);
  });

  it("sees a file become a folder and a folder a file", async () => {
    const folder = await makeTree();
    await writeFile(join(folder, "a"), "1");
    await mkdir(join(folder, "b/c"), { recursive: true });
    await writeFile(join(folder, "b/c/d"), "1");
    const watcher = await startWatcher(folder);
    await rm(join(folder, "a"));
    await mkdir(join(folder, "a"));
    await writeFile(join(folder, "a/inside"), "1");
    await rm(join(folder, "b"), { recursive: true });
    await writeFile(join(folder, "b"), "1");
    await watcher.flush();
    const changes = types(watcher.take());
    expect(changes.toSorted()).toEqual(["create a/inside", "create b", "delete a", "delete b/c/d"]);
    expect(changes.indexOf("delete a")).toBeLessThan(changes.indexOf("create a/inside"));
    expect(changes.indexOf("delete b/c/d")).toBeLessThan(changes.indexOf("create b"));
    await writeFile(join(folder, "a/more"), "1");
    await watcher.flush();
    expect(types(watcher.take())).toEqual(["create a/more"]);
  });

  it("follows renamed folders to their new place and forgets the old one", async () => {
    const folder = await makeTree();
    const elsewhere = await makeTree();
    await mkdir(join(folder, "a/deep"), { recursive: true });
    await writeFile(join(folder, "a/deep/x"), "1");
    const watcher = await startWatcher(folder);
    const mirror = new Mirror(folder);
    await rename(join(folder, "a"), join(folder, "b"));
    await watcher.flush();
    mirror.apply(watcher.take());
    await writeFile(join(folder, "b/deep/y"), "1");
    await writeFile(join(folder, "b/deep/x"), "22");
    await watcher.flush();
    const changes = watcher.take();
    expect(types(changes).toSorted()).toEqual(["change b/deep/x", "create b/deep/y"]);
    mirror.apply(changes);
    await rename(join(folder, "b"), join(elsewhere, "b"));
    await writeFile(join(elsewhere, "b/deep/z"), "1");
    await watcher.flush();
    mirror.apply(watcher.take());
    mirror.expectEqual();
    expect(mirror.tree.size).toBe(0);
  });

  it("notices a folder that is deleted and made again under its name", async () => {
    const folder = await makeTree();
    await mkdir(join(folder, "d/e"), { recursive: true });
    await writeFile(join(folder, "d/e/x"), "1");
    const watcher = await startWatcher(folder);
    const mirror = new Mirror(folder);
    for (let round = 0; round < 20; round++) {
      rmSync(join(folder, "d"), { recursive: true });
      mkdirSync(join(folder, "d/e"), { recursive: true });
      writeFileSync(join(folder, `d/e/${round % 2 === 0 ? "x" : "y"}`), String(round));
      if (round % 3 === 0) await watcher.flush();
      mirror.apply(watcher.take());
    }
    await watcher.flush();
    mirror.apply(watcher.take());
    mirror.expectEqual();
    const signal = AbortSignal.timeout(10_000);
    await writeFile(join(folder, "d/e/last"), "1");
    await watcher.moved({ signal });
    expect(types(watcher.take())).toEqual(["create d/e/last"]);
  });

  it("comes back when the folder itself does", async () => {
    const folder = join(await makeTree(), "workspace");
    await mkdir(folder);
    await writeFile(join(folder, "a"), "1");
    const watcher = await startWatcher(folder);
    await rm(folder, { recursive: true });
    await watcher.flush();
    expect(types(watcher.take())).toEqual(["delete a"]);
    await mkdir(folder);
    await writeFile(join(folder, "b"), "1");
    await watcher.moved({ signal: AbortSignal.timeout(20_000) });
    expect(types(watcher.take())).toEqual(["create b"]);
  });

  it("sees changes that keep size and time: another file of the same size and time, and a new executable bit", async () => {
    const folder = await makeTree();
    const time = new Date(1_700_000_000_000);
    for (const name of ["a", "b", "c"]) {
      await writeFile(join(folder, name), name);
      await utimes(join(folder, name), time, time);
    }
    const watcher = await startWatcher(folder);
    await rename(join(folder, "a"), join(folder, "b"));
    await chmod(join(folder, "c"), 0o755);
    await watcher.flush();
    expect(types(watcher.take()).toSorted()).toEqual(["change b", "change c", "delete a"]);
  });

  it("does not repeat itself for names that look like numbers, and takes any name", async () => {
    const folder = await makeTree();
    const watcher = await startWatcher(folder);
    const names = [
      ...Array.from({ length: 60 }, (_, index) => String(index)),
      "whole",
      "__proto__",
      "a\nb",
      'q"',
      "ä",
    ];
    for (const name of names) await writeFile(join(folder, name), "1");
    await watcher.flush();
    const first = watcher.take();
    expect(first.map(({ path }) => path).toSorted()).toEqual(names.toSorted());
    await watcher.flush();
    expect(watcher.take()).toEqual([]);
  });

  it("leaves nothing behind when it is stopped, and lets everybody go", async () => {
    const folder = await makeTree();
    const watcher = await startWatcher(folder);
    const waiting = watcher.moved({ signal: AbortSignal.timeout(20_000) });
    const controller = new AbortController();
    const aborted = watcher.moved({ signal: controller.signal });
    controller.abort(new Error("enough"));
    await expect(aborted).rejects.toThrow("enough");
    await watcher.stop();
    await waiting;
    await watcher.stop();
    await writeFile(join(folder, "a"), "1");
    await watcher.flush();
    expect(watcher.take()).toEqual([]);
    expect(process.getActiveResourcesInfo().filter((name) => name === "FSEventWrap")).toEqual([]);
  });
});
