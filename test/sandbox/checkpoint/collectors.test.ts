import { rmSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createCheckpoints } from "../../../src/sandbox/checkpoint/checkpoints.ts";
import type { Checkpoints, CheckpointStorage } from "../../../src/sandbox/checkpoint/port.ts";
import { look, makeBench, plant, type Bench } from "./bench.ts";

const HOUR_MS = 3_600_000;

/** A process on the bench's storage. `before` and `after` run around its calls, once for each key. */
function processOf(
  bench: Bench,
  name: string,
  hooks: {
    before?: (call: string, key: string) => Promise<void>;
    after?: (call: string, key: string) => Promise<void>;
  },
): Checkpoints {
  const around = async <T>(call: string, key: string, work: () => Promise<T>): Promise<T> => {
    await hooks.before?.(call, key);
    const result = await work();
    await hooks.after?.(call, key);
    return result;
  };
  const { storage: inner } = bench;
  const storage: CheckpointStorage = {
    put: (key, bytes) => around("put", key, () => inner.put(key, bytes)),
    putIfAbsent: (key, bytes) => around("putIfAbsent", key, () => inner.putIfAbsent(key, bytes)),
    get: (key) => around("get", key, () => inner.get(key)),
    has: (key) => around("has", key, () => inner.has(key)),
    list: (prefix) => around("list", prefix, () => inner.list(prefix)),
    delete: (key) => around("delete", key, () => inner.delete(key)),
  };
  return createCheckpoints({ storage, cacheFolder: join(bench.folder, name) });
}

/** A storage with the objects of a removed checkpoint, whose marks are old enough. */
async function condemn(bench: Bench): Promise<void> {
  const { checkpoints, roots, workspace, storage } = bench;
  plant(workspace, { a: "the content", b: "more of it" });
  const { info } = await checkpoints.checkpoint({ roots });
  await checkpoints.remove(info.id);
  expect(await checkpoints.gc()).toMatchObject({ marked: 2 });
  for (const key of await bench.objects("condemned/")) {
    const old = (Date.now() - 2 * HOUR_MS).toString(36);
    await storage.put(key.replace(/\/[^!]*!/, `/${old}!`), new Uint8Array());
    await storage.delete(key);
  }
}

/** The checkpoint is whole for a process that knows only the storage, now and after the next collections. */
async function expectWhole(bench: Bench, id: string): Promise<void> {
  const fresh = { workspace: join(bench.folder, "fresh") };
  for (const collects of [false, true]) {
    if (collects) await bench.reopened().gc();
    rmSync(fresh.workspace, { recursive: true, force: true });
    await bench.reopened().restore(id, { roots: fresh });
    expect(look(fresh.workspace)).toEqual(look(bench.workspace));
  }
}

const once = (work: () => Promise<void>): (() => Promise<void>) => {
  let done: Promise<void> | undefined;
  return () => (done ??= work());
};

it("a checkpoint of collected content that is taken while a collector has its list of marks is whole", async () => {
  const bench = makeBench();
  await condemn(bench);
  let taking: Promise<string> | undefined;
  let waits: (() => void) | undefined;
  const waiting = new Promise<void>((resolve) => (waits = resolve));
  let looks = 0;
  const taker = processOf(bench, "taker", {
    after: async (call, key) => {
      if (call === "list" && key === "condemned/" && (looks += 1) > 2) waits?.();
    },
  });
  const take = once(async () => {
    taking = taker.checkpoint({ roots: bench.roots }).then(({ info }) => info.id);
    await Promise.race([taking, waiting]);
  });
  const collector = processOf(bench, "collector", {
    before: async (call, key) => {
      if (call === "delete" && key.startsWith("manifests/")) await take();
    },
  });
  await collector.gc();
  await expectWhole(bench, (await taking) ?? "");
});

it.each(["packs/", "manifests/"])(
  "a checkpoint whose %s are collected after it has found them is whole",
  async (prefix) => {
    const bench = makeBench();
    await condemn(bench);
    const collect = once(async () => {
      expect(await bench.reopened().gc()).toMatchObject({ deleted: 2 });
    });
    const taker = processOf(bench, "taker", {
      after: async (call, key) => {
        if (call === "putIfAbsent" && key.startsWith(prefix)) await collect();
      },
    });
    const { info } = await taker.checkpoint({ roots: bench.roots });
    await expectWhole(bench, info.id);
  },
);

it("objects are deleted a grace after they were marked, and their marks a grace later", async () => {
  const bench = makeBench();
  await condemn(bench);
  expect(await bench.reopened().gc()).toMatchObject({ deleted: 2, marked: 0 });
  expect(await bench.objects("manifests/")).toEqual([]);
  expect(await bench.objects("packs/")).toEqual([]);
  expect(await bench.objects("condemned/")).toHaveLength(2);
});
