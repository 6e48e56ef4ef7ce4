import { execFileSync } from "node:child_process";
import {
  existsSync,
  linkSync,
  lstatSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createFolderStorage } from "../../../src/sandbox/checkpoint/storage/folder.ts";
import { look, makeBench, makeFolder, plant } from "./bench.ts";
import { start } from "./hostility.ts";

describe("a restore over an agent's files", () => {
  it("follows no symlink that stands where a folder was", async () => {
    const bench = makeBench();
    plant(bench.workspace, { "d/file": "inside", "d/sub/deep": "inside too" });
    const before = look(bench.workspace);
    const { info } = await bench.checkpoints.checkpoint({ roots: bench.roots });
    const outside = join(bench.folder, "outside");
    plant(outside, { file: "outside", "sub/deep": "outside too", extra: "e" });
    rmSync(join(bench.workspace, "d"), { recursive: true });
    symlinkSync(outside, join(bench.workspace, "d"));
    await bench.checkpoints.restore(info.id, { roots: bench.roots });
    expect(look(bench.workspace)).toEqual(before);
    expect(readFileSync(join(outside, "file"), "utf8")).toBe("outside");
    expect(Object.keys(look(outside))).toEqual(["extra", "file", "sub", "sub/deep"]);
  });

  it("writes nowhere else when its staged entry is swapped for a symlink", async () => {
    const folder = makeFolder();
    const outside = join(folder, "outside");
    plant(outside, { kept: "outside" });
    // A slow storage gives an attacker in the folder plenty of time.
    const storage = createFolderStorage(join(folder, "storage"));
    let swap: (() => void) | undefined;
    const bench = makeBench({
      ...storage,
      get: async (key) => {
        if (key.startsWith("packs/")) swap?.();
        return storage.get(key);
      },
      put: (key, bytes) => storage.put(key, bytes),
      putIfAbsent: (key, bytes) => storage.putIfAbsent(key, bytes),
      has: (key) => storage.has(key),
      list: (prefix) => storage.list(prefix),
      delete: (key) => storage.delete(key),
    });
    const long = "long ".repeat(500_000);
    plant(bench.workspace, { "d/sub/file": "inside", "d/other/long": long });
    const { info } = await bench.checkpoints.checkpoint({ roots: bench.roots });
    rmSync(join(bench.workspace, "d"), { recursive: true });
    let swapped = 0;
    swap = () => {
      const stage = readdirSync(bench.workspace).find((name) => name.startsWith(".sluice-restore-"));
      const victim = join(bench.workspace, stage ?? "", "0/sub");
      if (stage === undefined || !existsSync(victim)) return;
      renameSync(victim, `${victim}.real`);
      symlinkSync(outside, victim);
      swapped += 1;
    };
    await bench
      .reopened()
      .restore(info.id, { roots: bench.roots })
      .catch(() => {});
    expect(swapped).toBeGreaterThan(0);
    expect(Object.keys(look(outside))).toEqual(["kept"]);
  });

  it("changes no other name of a file with several", async () => {
    const bench = makeBench();
    plant(bench.workspace, { a: "content", b: "content b" });
    const { info } = await bench.checkpoints.checkpoint({ roots: bench.roots });
    const outside = join(bench.folder, "outside");
    for (const name of ["a", "b"]) linkSync(join(bench.workspace, name), `${outside}-${name}`);
    execFileSync("chmod", ["700", join(bench.workspace, "a")]);
    writeFileSync(join(bench.workspace, "b"), "changed b");
    await bench.checkpoints.restore(info.id, { roots: bench.roots });
    expect(lstatSync(`${outside}-a`).mode & 0o777).toBe(0o700);
    expect(readFileSync(`${outside}-b`, "utf8")).toBe("changed b");
    expect(readFileSync(join(bench.workspace, "b"), "utf8")).toBe("content b");
  });

  it("removes the remains of a killed restore, and never keeps them", async () => {
    const bench = makeBench();
    plant(bench.workspace, { a: "1", ".sluice-restore-1-x/0": "half" });
    const { info, work } = await bench.checkpoints.checkpoint({ roots: bench.roots });
    expect(work.files).toBe(1);
    await bench.checkpoints.restore(info.id, { roots: bench.roots });
    expect(readdirSync(bench.workspace)).toEqual(["a"]);
  });

  it("leaves alone names that are not UTF-8", async () => {
    const bench = makeBench();
    const odd = Buffer.concat([Buffer.from(join(bench.workspace, "d/")), Buffer.from([0x66, 0xff])]);
    plant(bench.workspace, { "d/good": "g" });
    writeFileSync(odd, "odd");
    const { info, unread } = await bench.checkpoints.checkpoint({ roots: bench.roots });
    expect(unread).toEqual(["workspace/d/f\u{FFFD}"]);
    writeFileSync(join(bench.workspace, "extra"), "");
    await bench.checkpoints.restore(info.id, { roots: bench.roots });
    expect(readFileSync(odd, "utf8")).toBe("odd");
    expect(readdirSync(bench.workspace)).toEqual(["d"]);
    unlinkSync(odd);
  });

  it("stands a folder that is swapped for a symlink while it walks", async () => {
    const bench = makeBench();
    const outside = join(bench.folder, "outside");
    plant(outside, Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`f${n}`, "the host's own"])));
    plant(bench.workspace, Object.fromEntries(Array.from({ length: 200 }, (_, n) => [`d/f${n}`, "mine"])));
    const swapper = startSwapper(join(bench.workspace, "d"), outside);
    try {
      for (let round = 0; round < 40; round++) await bench.checkpoints.checkpoint({ roots: bench.roots });
    } finally {
      await swapper.stop();
    }
    expect((await bench.everything()).includes("the host's own")).toBe(false);
  });
});

/** A process that puts a symlink in the place of a folder and back, as fast as it can. */
function startSwapper(folder: string, target: string): { stop(): Promise<void> } {
  const script = `
    const fs = require("node:fs");
    const [folder, target] = process.argv.slice(1);
    fs.symlinkSync(target, folder + ".link");
    for (;;) {
      fs.renameSync(folder, folder + ".real"); fs.renameSync(folder + ".link", folder);
      fs.renameSync(folder, folder + ".link"); fs.renameSync(folder + ".real", folder);
    }`;
  return start(script, folder, target);
}
