import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { look, makeBench, plant } from "./bench.ts";
import { bundleInto } from "../../support/bundle.ts";

describe("kill -9", () => {
  let folder: string;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "sluice-checkpoint-program-"));
    await bundleInto(join(folder, "program.mjs"), resolve(import.meta.dirname, "taker.ts"));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  /** Runs it until it is ready and a while longer. Returns its finished work. */
  const runAndKill = async (args: string[], afterMs: number): Promise<string[]> => {
    const child = spawn(process.execPath, [join(folder, "program.mjs"), ...args], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const closed = once(child, "close");
    const lines: string[] = [];
    const reader = createInterface({ input: child.stdout }).on("line", (line) => lines.push(line));
    await once(reader, "line");
    await sleep(afterMs);
    child.kill("SIGKILL");
    await closed;
    expect(child.signalCode).toBe("SIGKILL");
    return lines.slice(1);
  };
  it("of a process that takes checkpoints leaves whole ones, ten times over", async () => {
    const bench = makeBench();
    const storage = bench.storage.folder ?? "";
    for (let round = 0; round < 10; round++) {
      grow(bench.workspace, round);
      const wait = round * 13 + Math.random() * 10;
      const done = await runAndKill(
        ["take", storage, join(bench.folder, "shared-cache"), bench.workspace],
        wait,
      );
      const reader = bench.reopened();
      const ids = (await reader.list({ sessionId: "s", limit: 1000 })).map((info) => info.id);
      expect(ids).toEqual((await reader.list({ limit: 1000 })).map((info) => info.id));
      for (const id of done) expect(ids).toContain(id);
      const [newest] = ids;
      const fresh = join(bench.folder, `fresh-${round}`);
      if (newest !== undefined) await reader.restore(newest, { roots: { workspace: fresh } });
      if (done.includes(newest ?? "")) expect(look(fresh)).toEqual(look(bench.workspace));
      rmSync(fresh, { recursive: true, force: true });
    }
    // The remains of killed processes are harmless and get removed.
    const { info } = await bench.checkpoints.checkpoint({ roots: { workspace: bench.workspace } });
    for (const { id } of await bench.checkpoints.list({ limit: 1000 })) {
      if (id !== info.id) await bench.checkpoints.remove(id);
    }
    await bench.checkpoints.gc({ graceMs: 0 });
    const kept = await bench.objects("packs/");
    expect(await bench.objects("manifests/")).toEqual([`manifests/${info.hash}`]);
    expect((await bench.checkpoints.gc({ graceMs: 0 })).deleted).toBe(0);
    expect(await bench.objects("packs/")).toEqual(kept);
    const fresh = join(bench.folder, "fresh");
    await bench.reopened().restore(info.id, { roots: { workspace: fresh } });
    expect(look(fresh)).toEqual(look(bench.workspace));
  });

  it("of a process that also removes and collects never breaks a checkpoint that stands", async () => {
    const bench = makeBench();
    const storage = bench.storage.folder ?? "";
    grow(bench.workspace, 0);
    const { info } = await bench.checkpoints.checkpoint({ roots: { workspace: bench.workspace } });
    const before = look(bench.workspace);
    for (let round = 1; round <= 6; round++) {
      plant(bench.workspace, { [`extra-${round}`]: `${round}`.repeat(10_000) });
      const wait = round * 17 + Math.random() * 20;
      await runAndKill(["churn", storage, join(bench.folder, "shared-cache"), bench.workspace], wait);
      const fresh = join(bench.folder, `fresh-${round}`);
      await bench.reopened().restore(info.id, { roots: { workspace: fresh } });
      expect(look(fresh)).toEqual(before);
      rmSync(fresh, { recursive: true });
    }
  });

  it("of a process that restores leaves only whole files, and the next restore puts it right", async () => {
    const bench = makeBench();
    const storage = bench.storage.folder ?? "";
    const trees = [];
    for (const round of [0, 1]) {
      grow(bench.workspace, round);
      await bench.checkpoints.checkpoint({ roots: { workspace: bench.workspace } });
      trees.push(look(bench.workspace));
    }
    const target = join(bench.folder, "target");
    mkdirSync(target);
    for (let round = 0; round < 6; round++) {
      const wait = 20 + round * 31 + Math.random() * 20;
      await runAndKill(["restore", storage, join(bench.folder, "shared-cache"), target], wait);
      for (const [path, found] of Object.entries(look(target))) {
        if (path.startsWith(".sluice-restore-") || found.kind !== "file") continue;
        expect(trees.map((tree) => tree[path]?.content)).toContain(found.content);
      }
      await bench.reopened().restore("latest", { roots: { workspace: target } });
      expect(look(target)).toEqual(trees[1]);
      expect(readdirSync(target).filter((name) => name.startsWith("."))).toEqual([]);
    }
  });
});

function grow(workspace: string, round: number): void {
  const toFile = (n: number): [string, string] => [`d${n % 9}/f${n}`, `${round} ${n} `.repeat(500)];
  plant(workspace, Object.fromEntries(Array.from({ length: 400 }, (_, n) => toFile(n))));
}
