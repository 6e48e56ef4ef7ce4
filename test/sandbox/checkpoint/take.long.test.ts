import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createCheckpoints } from "../../../src/sandbox/checkpoint/checkpoints.ts";
import { look, makeBench, plant, settle } from "./bench.ts";

describe("a checkpoint", () => {
  it("restores its files into a new folder and over existing files", async () => {
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
        // Equal trees have equal hashes, at any path.
        const again = await bench.checkpoints.checkpoint({ roots: { ...other, home: fresh.home } });
        expect(again.info.hash).toBe(info.hash);
      }),
      { numRuns: 40 },
    );
  });

  it("describes itself", async () => {
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

  it("costs three files when three of 3,000 changed", async () => {
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
    // The same after a restart, from the cache on disk. Very recent files may be read again.
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

/** Makes the possible entries. A path through a file, or a taken one, is skipped. */
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

/** A megabyte that no codec makes smaller. */
function toNoise(seed: number): Buffer {
  const bytes = Buffer.alloc(1024 * 1024);
  for (let n = 0, x = seed; n < bytes.length; n += 4) {
    x = (Math.imul(x, 1664525) + 1013904223) >>> 0;
    bytes.writeUInt32LE((x ^ (x >>> 13)) >>> 0, n);
  }
  return bytes;
}
