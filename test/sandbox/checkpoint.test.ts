import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createCheckpoints } from "../../src/sandbox/checkpoint/checkpoints.ts";
import { look, makeBench, plant, settle } from "./checkpointBench.ts";

describe("a checkpoint", () => {
  it("brings back what it was taken of, into a fresh folder and over whatever is there", async () => {
    await fc.assert(
      fc.asyncProperty(tree, tree, async (first, second) => {
        const bench = makeBench();
        grow(bench.workspace, first);
        const before = look(bench.workspace);
        const { info } = await bench.checkpoints.checkpoint({ roots: bench.roots });
        const fresh = { workspace: join(bench.folder, "fresh"), home: join(bench.folder, "fresh-home") };
        await bench.checkpoints.restore(info.id, { roots: fresh });
        expect(look(fresh.workspace)).toEqual(before);
        const other = { workspace: join(bench.folder, "other"), home: bench.home };
        mkdirSync(other.workspace);
        grow(other.workspace, second);
        await bench.reopened().restore(info.id, { roots: other });
        expect(look(other.workspace)).toEqual(before);
        // Equal trees have equal hashes, wherever they lie.
        const again = await bench.checkpoints.checkpoint({ roots: { ...other, home: fresh.home } });
        expect(again.info.hash).toBe(info.hash);
      }),
      { numRuns: 40 },
    );
  });

  it("says what it is", async () => {
    const { checkpoints, roots, workspace } = makeBench();
    plant(workspace, { a: "12345", "b/c": "678" });
    const facts = { comment: "before the refactoring", model: "m-1", sessionId: "ses_1", parentId: "ckpt_0" };
    const { info } = await checkpoints.checkpoint({ roots, agent: "scripted", ...facts });
    expect(info).toEqual({
      id: expect.stringMatching(/^ckpt_/),
      hash: expect.stringMatching(/^[0-9a-f]{64}$/),
      timestamp: new Date(info.timestamp).toISOString(),
      sizeBytes: 8,
      agentType: "scripted",
      ...facts,
    });
    expect(await checkpoints.get(info.id)).toEqual(info);
  });

  it("costs what three files cost when three of 3,000 changed", async () => {
    const bench = makeBench();
    const files = Array.from({ length: 3000 }, (_, n) => [
      `d${n % 60}/e${n % 7}/f${n}.txt`,
      `file ${n}\n`.repeat(20),
    ]);
    plant(bench.workspace, Object.fromEntries(files));
    await settle();
    const full = await bench.checkpoints.checkpoint({ roots: bench.roots });
    expect(full.work).toMatchObject({ files: 3000, filesRead: 3000 });
    // Packs, index, manifest and record: nothing like an object per file.
    expect(full.work.objectsWritten).toBeLessThan(8);
    const idle = await bench.checkpoints.checkpoint({ roots: bench.roots });
    expect(idle.work).toMatchObject({ files: 3000, filesRead: 0, bytesRead: 0, objectsWritten: 1 });
    expect(idle.info.hash).toBe(full.info.hash);
    plant(bench.workspace, { "d1/e1/f1.txt": "one", "d30/e2/f30.txt": "two", "new/file": "three" });
    const before = (await bench.objects()).length;
    const three = await bench.checkpoints.checkpoint({ roots: bench.roots });
    expect(three.work).toMatchObject({ files: 3001, filesRead: 3, bytesRead: 11, objectsWritten: 4 });
    expect(await bench.objects()).toHaveLength(before + 4);
    expect(three.work.bytesWritten).toBeLessThan(full.work.bytesWritten / 5);
    // The same after a restart, from the cache on disk; of what was new just now it may not be sure.
    await settle();
    const cacheFolder = join(bench.folder, "cache-0");
    const restarted = createCheckpoints({ storage: bench.storage, cacheFolder });
    expect((await restarted.checkpoint({ roots: bench.roots })).work.filesRead).toBeLessThanOrEqual(3);
    expect((await restarted.checkpoint({ roots: bench.roots })).work.filesRead).toBe(0);
  });

  it("keeps the same content once, across paths, roots, sessions and lost caches", async () => {
    const bench = makeBench();
    const big = Buffer.from(Array.from({ length: 40_000 }, (_, n) => Math.floor(Math.sin(n) * 1e9)));
    plant(bench.workspace, { "a/one": big, "b/two": big });
    plant(bench.home, { copy: big });
    await bench.checkpoints.checkpoint({ roots: bench.roots, sessionId: "one" });
    const packs = await bench.objects("packs/");
    expect(packs).toHaveLength(1);
    const other = makeBench(bench.storage);
    plant(other.workspace, { "elsewhere/three": big });
    const second = await other.checkpoints.checkpoint({
      roots: { workspace: other.workspace },
      sessionId: "two",
    });
    // Only the page that names the new path is new.
    expect(second.work.bytesWritten).toBeLessThan(1500);
    expect(await bench.objects("packs/")).toHaveLength(2);
  });

  it("stores of a long file that grew its last piece alone", async () => {
    const bench = makeBench();
    const long = Buffer.concat([1, 2, 3, 4, 5].map(toNoise));
    plant(bench.workspace, { log: long });
    const first = await bench.checkpoints.checkpoint({ roots: bench.roots });
    expect(first.work.bytesWritten).toBeGreaterThan(5_000_000);
    plant(bench.workspace, { log: Buffer.concat([long, Buffer.from("one more line\n")]) });
    const second = await bench.checkpoints.checkpoint({ roots: bench.roots });
    expect(second.work.bytesWritten).toBeLessThan(3000);
    const fresh = join(bench.folder, "fresh");
    await bench.reopened().restore(second.info.id, { roots: { workspace: fresh } });
    expect(look(fresh)).toEqual(look(bench.workspace));
    await bench.reopened().restore(first.info.id, { roots: { workspace: fresh } });
    expect(readFileSync(join(fresh, "log")).equals(long)).toBe(true);
  });

  it("tells how far it is, and can be stopped", async () => {
    const bench = makeBench();
    plant(bench.workspace, Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`f${n}`, `${n}`])));
    const steps: { files: number; bytes: number; total?: number }[] = [];
    const { info } = await bench.checkpoints.checkpoint({
      roots: bench.roots,
      onProgress: (step) => steps.push(step),
    });
    expect(steps.at(-1)).toEqual({ files: 500, bytes: info.sizeBytes });
    const fresh = { workspace: join(bench.folder, "fresh") };
    await bench.checkpoints.restore(info.id, { roots: fresh, onProgress: (step) => steps.push(step) });
    expect(steps.at(-1)).toEqual({ files: 500, bytes: info.sizeBytes, total: 500 });
    const signal = AbortSignal.abort(new Error("enough"));
    await expect(bench.checkpoints.checkpoint({ roots: bench.roots, signal })).rejects.toThrow("enough");
    await expect(bench.checkpoints.restore(info.id, { roots: fresh, signal })).rejects.toThrow("enough");
    expect(await bench.checkpoints.list()).toEqual([info]);
  });
});

describe("a restore", () => {
  it("touches only what differs", async () => {
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
    // What it wrote is known, so the next checkpoint reads nothing.
    expect((await bench.checkpoints.checkpoint({ roots: bench.roots })).work.filesRead).toBe(0);
  });

  it("never removes what is excluded", async () => {
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

  it.runIf(process.getuid?.() === 0)("gives what it makes to the owner of the root", async () => {
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

describe("the list of checkpoints", () => {
  it("is newest first, of all or of a session, and knows lineages", async () => {
    const { checkpoints, roots, workspace, reopened } = makeBench();
    const taken: string[] = [];
    for (let n = 0; n < 6; n++) {
      plant(workspace, { n: String(n) });
      const parentId = n >= 2 ? taken[n - 2] : undefined;
      const sessionId = n % 2 ? "odd" : "even";
      taken.push((await checkpoints.checkpoint({ roots, sessionId, parentId })).info.id);
    }
    const ids = async (options?: Parameters<typeof checkpoints.list>[0]): Promise<string[]> =>
      (await reopened().list(options)).map((info) => info.id);
    expect(await ids()).toEqual(taken.toReversed());
    expect(await ids({ limit: 2 })).toEqual([taken[5], taken[4]]);
    expect(await ids({ sessionId: "even" })).toEqual([taken[4], taken[2], taken[0]]);
    expect(await ids({ sessionId: "even", limit: 1 })).toEqual([taken[4]]);
    expect(await ids({ sessionId: "none" })).toEqual([]);
    expect((await checkpoints.get("latest"))?.id).toBe(taken[5]);
    expect((await checkpoints.get("latest", { sessionId: "even" }))?.id).toBe(taken[4]);
    expect((await checkpoints.lineage(taken[5] ?? "")).map((info) => info.id)).toEqual([
      taken[5],
      taken[3],
      taken[1],
    ]);
    await checkpoints.restore("latest", { roots, sessionId: "even" });
    expect(readFileSync(join(workspace, "n"), "utf8")).toBe("4");
    await expect(checkpoints.restore("latest", { roots, sessionId: "none" })).rejects.toMatchObject({
      code: "not_found",
    });
    await expect(checkpoints.restore("ckpt_no", { roots })).rejects.toMatchObject({ code: "not_found" });
    await expect(checkpoints.restore("../../etc", { roots })).rejects.toMatchObject({ code: "not_found" });
    await expect(checkpoints.list({ sessionId: "../x" })).rejects.toMatchObject({ code: "invalid_request" });
    await expect(checkpoints.list({ limit: 0 })).rejects.toMatchObject({ code: "invalid_request" });
  });
});

describe("the collector", () => {
  it("deletes what no checkpoint needs, and only that", async () => {
    const bench = makeBench();
    const { checkpoints, roots, workspace } = bench;
    plant(workspace, Object.fromEntries(Array.from({ length: 40 }, (_, n) => [`f${n}`, toText(n)])));
    const first = (await checkpoints.checkpoint({ roots, sessionId: "s" })).info;
    for (let n = 1; n < 40; n++) rmSync(join(workspace, `f${n}`));
    plant(workspace, { extra: toText(99) });
    const second = (await checkpoints.checkpoint({ roots, sessionId: "s" })).info;
    expect(await checkpoints.gc({ graceMs: 0 })).toEqual({ deleted: 0, marked: 0, repacked: 0 });
    expect(await checkpoints.remove(first.id)).toBe(true);
    expect(await checkpoints.remove(first.id)).toBe(false);
    // The first pack is nearly dead, so what lives of it moves.
    expect(await checkpoints.gc({ graceMs: 0 })).toMatchObject({ repacked: 1, deleted: 2 });
    expect(await bench.objects("indexes/")).toHaveLength(1);
    expect((await bench.everything()).includes(toText(20))).toBe(false);
    const fresh = { workspace: join(bench.folder, "fresh") };
    for (const reader of [checkpoints, bench.reopened()]) {
      rmSync(fresh.workspace, { recursive: true, force: true });
      await reader.restore(second.id, { roots: fresh });
      expect(look(fresh.workspace)).toEqual(look(workspace));
    }
    await checkpoints.remove(second.id);
    await checkpoints.gc({ graceMs: 0 });
    expect((await bench.objects()).filter((key) => !key.startsWith("indexes/"))).toEqual([]);
  });

  it("gives others a grace, in which what they need again is saved", async () => {
    const bench = makeBench();
    const { checkpoints, roots, workspace } = bench;
    plant(workspace, { a: "the content" });
    const first = (await checkpoints.checkpoint({ roots })).info;
    const other = bench.reopened();
    await other.list();
    await checkpoints.remove(first.id);
    expect(await checkpoints.gc()).toEqual({ deleted: 0, marked: 2, repacked: 0 });
    expect(await checkpoints.gc()).toEqual({ deleted: 0, marked: 2, repacked: 0 });
    expect(await bench.objects("condemned/")).toHaveLength(2);
    const second = (await other.checkpoint({ roots })).info;
    await checkpoints.gc();
    await checkpoints.gc({ graceMs: 0 });
    expect(await bench.objects("condemned/")).toEqual([]);
    const fresh = { workspace: join(bench.folder, "fresh") };
    await bench.reopened().restore(second.id, { roots: fresh });
    expect(look(fresh.workspace)).toEqual(look(workspace));
    await checkpoints.remove(second.id);
    expect(await checkpoints.gc()).toMatchObject({ marked: 2 });
    expect(await checkpoints.gc({ graceMs: 0 })).toMatchObject({ deleted: 2 });
  });

  it("forgets the files of roots that are gone, and of no other", async () => {
    const bench = makeBench();
    const gone = join(bench.folder, 'a "gone" one');
    plant(bench.workspace, { a: "a" });
    plant(gone, { b: "b" });
    await settle();
    await bench.checkpoints.checkpoint({ roots: { workspace: bench.workspace, gone } });
    const stats = join(bench.folder, "cache-0", "stats");
    expect(readdirSync(stats)).toHaveLength(2);
    rmSync(gone, { recursive: true });
    await bench.checkpoints.gc();
    expect(readdirSync(stats)).toHaveLength(1);
    const again = await bench.checkpoints.checkpoint({ roots: { workspace: bench.workspace } });
    expect(again.work.filesRead).toBe(0);
  });

  it("waits for a checkpoint that is being taken, and holds up the next", async () => {
    const bench = makeBench();
    const { checkpoints, roots, workspace } = bench;
    for (let round = 0; round < 10; round++) {
      plant(workspace, { a: `round ${round}`, b: "always" });
      const [taken] = await Promise.all([
        checkpoints.checkpoint({ roots }),
        checkpoints.gc({ graceMs: 0 }),
        checkpoints.checkpoint({ roots }),
        checkpoints.gc({ graceMs: 0 }),
      ]);
      const fresh = { workspace: join(bench.folder, `fresh-${round}`) };
      await bench.reopened().restore(taken.info.id, { roots: fresh });
      expect(look(fresh.workspace)).toEqual(look(workspace));
      for (const info of await checkpoints.list()) await checkpoints.remove(info.id);
    }
  });
});

describe("checkpoints at the same time", () => {
  it("of two sessions, also by two processes' worth of state, are each whole", async () => {
    const bench = makeBench();
    const other = makeBench(bench.storage);
    for (const [n, { workspace }] of [bench, other].entries()) {
      const mine = Array.from({ length: 300 }, (_, k) => [`f${k}`, k % 2 ? `shared ${k}` : `own ${n} ${k}`]);
      plant(workspace, Object.fromEntries(mine));
    }
    const taken = await Promise.all(
      [bench, other, bench, other].map(({ checkpoints, roots }, n) =>
        checkpoints.checkpoint({ roots, sessionId: `s${n % 2}` }),
      ),
    );
    for (const [n, { info }] of taken.entries()) {
      const fresh = { workspace: join(bench.folder, `fresh-${n}`) };
      await bench.reopened().restore(info.id, { roots: fresh });
      expect(look(fresh.workspace)).toEqual(look((n % 2 ? other : bench).workspace));
    }
    expect(new Set(taken.map(({ info }) => info.id)).size).toBe(4);
    expect(await bench.checkpoints.list({ sessionId: "s0" })).toHaveLength(2);
  });
});

type Leaf =
  | { kind: "file"; content: Uint8Array; mode: number; mtime: number }
  | { kind: "link"; target: string }
  | { kind: "folder"; mode: number };

const name = fc
  .oneof(
    fc.string({ unit: "grapheme", minLength: 1, maxLength: 12 }),
    fc.constantFrom(
      "a",
      "b",
      "c",
      " ",
      "it's",
      'say "hi"',
      "new\nline",
      "-rf",
      "ü",
      "日本語",
      "🦀",
      "a\\b",
      "%2e",
      "...",
      "\u{FFFD}",
      "\t",
    ),
  )
  // The slash and NUL cannot be in a name, and these names are excluded or no names.
  .map((text) => text.replaceAll(/[/\0]/g, "_"))
  .filter(
    (text) =>
      text !== "." &&
      text !== ".." &&
      Buffer.from(text).toString() === text &&
      Buffer.byteLength(text) < 100 &&
      text !== "venv",
  );

const leaf: fc.Arbitrary<Leaf> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("file" as const),
      content: fc.uint8Array({ maxLength: 300 }),
      mode: fc.constantFrom(0o644, 0o600, 0o755, 0o444, 0o640),
      mtime: fc.integer({ min: 1, max: 1_800_000_000_999 }),
    }),
  },
  fc.record({
    kind: fc.constant("link" as const),
    target: fc.constantFrom("a", "../x", "/etc/passwd", "no where", "ü"),
  }),
  fc.record({ kind: fc.constant("folder" as const), mode: fc.constantFrom(0o755, 0o700, 0o750) }),
);

const tree = fc.array(fc.tuple(fc.array(name, { minLength: 1, maxLength: 4 }), leaf), { maxLength: 25 });

/** Plants what fits: where a path leads through a file or is taken, it is left out. */
function grow(root: string, leaves: readonly (readonly [string[], Leaf])[]): void {
  for (const [names, leaf] of leaves) {
    const file = join(root, ...names);
    const above = names.slice(0, -1).map((_, n) => join(root, ...names.slice(0, n + 1)));
    if (above.some((path) => lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === false)) continue;
    if (lstatSync(file, { throwIfNoEntry: false }) !== undefined) continue;
    mkdirSync(dirname(file), { recursive: true });
    if (leaf.kind === "link") symlinkSync(leaf.target, file);
    else if (leaf.kind === "folder") mkdirSync(file, leaf.mode);
    else {
      writeFileSync(file, leaf.content);
      chmodSync(file, leaf.mode);
      utimesSync(file, leaf.mtime / 1000, leaf.mtime / 1000);
    }
  }
}

function toText(n: number): string {
  return `${n} `.repeat(3000);
}

/** A megabyte that no codec makes smaller. */
function toNoise(seed: number): Buffer {
  const bytes = Buffer.alloc(1024 * 1024);
  for (let n = 0, x = seed; n < bytes.length; n += 4) {
    x = (Math.imul(x, 1664525) + 1013904223) >>> 0;
    bytes.writeUInt32LE((x ^ (x >>> 13)) >>> 0, n);
  }
  return bytes;
}
