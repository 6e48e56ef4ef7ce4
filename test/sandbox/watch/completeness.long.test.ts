import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { count, makeTree, Mirror, run, startWatcher, takeLive } from "./tree.ts";

describe("nothing is missed", () => {
  it("in 5,000 files in 50 new nested folders, appended to, and removed with them", async () => {
    const folder = await makeTree();
    const watcher = await startWatcher(folder);
    const mirror = new Mirror(folder);
    const each =
      'for (const i of Array(50).keys()) for (const k of Array(100).keys()) { const d = "n/" + i + "/a/b/c/" + (k % 5);';
    await run(
      process.execPath,
      [
        "-e",
        `const fs = require("node:fs"); ${each} fs.mkdirSync(d, { recursive: true }); fs.writeFileSync(d + "/" + k, "x"); }`,
      ],
      folder,
    );
    // The reader gets all of them live. A comparison of the whole tree adds only last writes.
    const created = await takeLive(watcher, 5_000);
    expect(count(created)).toMatchObject({ create: 5_000, delete: 0 });
    await watcher.flush();
    const rest = watcher.take();
    expect(count(rest)).toMatchObject({ create: 0, delete: 0 });
    mirror.apply([...created, ...rest]);
    mirror.expectEqual();

    const append = `const fs = require("node:fs"); ${each} fs.appendFileSync(d + "/" + k, "y"); }`;
    await run(process.execPath, ["-e", append], folder);
    const changed = await takeLive(watcher, 5_000);
    expect(count(changed)).toMatchObject({ create: 0, delete: 0 });
    await watcher.flush();
    mirror.apply([...changed, ...watcher.take()]);
    mirror.expectEqual();

    await run("rm", ["-rf", "n"], folder);
    expect(count(await takeLive(watcher, 5_000))).toEqual({ create: 0, change: 0, delete: 5_000 });
    await watcher.flush();
    expect(watcher.take()).toEqual([]);
  });

  it("by a reader that only waits, while files come and go", async () => {
    const folder = await makeTree();
    const watcher = await startWatcher(folder);
    const mirror = new Mirror(folder);
    const writing = run(
      process.execPath,
      [
        "-e",
        `const fs = require("node:fs");
         for (let i = 0; i < 3000; i++) {
           const d = "d" + (i % 40) + "/" + (i % 7);
           fs.mkdirSync(d, { recursive: true });
           fs.writeFileSync(d + "/" + i, "x");
           if (i % 3 === 0) fs.rmSync(d + "/" + i);
           if (i % 500 === 499) fs.rmSync("d" + (i % 40), { recursive: true });
         }
         fs.writeFileSync("end", "1");`,
      ],
      folder,
    );
    const signal = AbortSignal.timeout(30_000);
    const known = new Set<string>();
    while (!known.has("end")) {
      await watcher.moved({ signal });
      for (const { type, path } of watcher.take()) {
        expect(known.has(path), `${type} ${path}`).toBe(type !== "create");
        if (type === "delete") known.delete(path);
        else known.add(path);
      }
    }
    await writing;
    await watcher.flush();
    for (const { type, path } of watcher.take()) {
      if (type === "delete") known.delete(path);
      else known.add(path);
    }
    const real = new Mirror(folder).tree;
    expect([...known].toSorted()).toEqual([...real.keys()].toSorted());
    expect(mirror.tree.size).toBe(0);
  });

  it("in a git checkout of 2,700 paths, there and back", async () => {
    const folder = await makeTree();
    const write = (version: number, from: number, to: number): void => {
      for (let index = from; index < to; index++) {
        const place = join(folder, `p${index % 60}`, `q${index % 7}`);
        mkdirSync(place, { recursive: true });
        writeFileSync(join(place, `${index}`), `version ${version} of ${index}`);
      }
    };
    const git = (...args: string[]): Promise<void> => run("git", args, folder);
    await git("init", "-q", "-b", "one");
    write(1, 0, 1_800);
    await git("add", "-A");
    await git("commit", "-qm", "1");
    await git("checkout", "-qb", "two");
    for (let index = 0; index < 900; index++)
      rmSync(join(folder, `p${index % 60}`, `q${index % 7}`, `${index}`));
    write(2, 900, 2_700);
    await git("add", "-A");
    await git("commit", "-qm", "2");

    const watcher = await startWatcher(folder);
    const mirror = new Mirror(folder);
    for (const branch of ["one", "two", "one"]) {
      await git("checkout", "-q", branch);
      const changes = await takeLive(watcher, 2_700);
      await watcher.flush();
      changes.push(...watcher.take());
      // git deletes a file before it writes its other version, and a reader may be told so.
      expect(new Set(changes.map(({ path }) => path)).size).toBe(2_700);
      mirror.apply(changes);
      mirror.expectEqual();
    }
  });

  it("in 15,000 files while this process is busy, although the kernel's queue is full by then", async () => {
    const folder = await makeTree();
    for (let index = 0; index < 30; index++) mkdirSync(join(folder, `d${index}`));
    const warnings: string[] = [];
    const watcher = await startWatcher(folder, { onError: ({ reason }) => warnings.push(reason) });
    const script = `const fs = require("node:fs");
      for (let i = 0; i < 15000; i++) fs.writeFileSync("d" + (i % 30) + "/" + i, "x");
      fs.writeFileSync("end", "1")`;
    const child = spawn(process.execPath, ["-e", script], { cwd: folder, stdio: "ignore" });
    const closed = once(child, "close");
    const cell = new Int32Array(new SharedArrayBuffer(4));
    while (!readdirSync(folder).includes("end")) Atomics.wait(cell, 0, 0, 50);
    expect(count(await takeLive(watcher, 15_001))).toMatchObject({ create: 15_001, delete: 0 });
    await closed;
    expect(warnings).toContain("events_lost");
  });

  it("in a tree that is too large to be compared at every flush", async () => {
    const folder = await makeTree();
    for (let index = 0; index < 6_000; index++) {
      const place = join(folder, `d${index % 50}`);
      mkdirSync(place, { recursive: true });
      writeFileSync(join(place, String(index)), "x");
    }
    const watcher = await startWatcher(folder);
    const mirror = new Mirror(folder);
    for (let round = 0; round < 5; round++) {
      for (let index = 0; index < 40; index++) {
        appendFileSync(join(folder, `d${index}`, String(index)), "y");
        mkdirSync(join(folder, `new${round}/${index}`), { recursive: true });
        writeFileSync(join(folder, `new${round}/${index}/file`), "z");
      }
      if (round > 0) renameSync(join(folder, `new${round - 1}`), join(folder, `d0/moved${round}`));
      if (round > 2) rmSync(join(folder, `d0/moved${round - 1}`), { recursive: true });
      symlinkSync("x", join(folder, `link${round}`));
      await watcher.flush();
      mirror.apply(watcher.take());
      mirror.expectEqual();
    }
  });
});
