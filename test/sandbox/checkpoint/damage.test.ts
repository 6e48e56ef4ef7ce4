import { lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { PackWriter, sha256 } from "../../../src/sandbox/checkpoint/storage/pack.ts";
import { look, makeBench, plant, type Bench } from "./bench.ts";
import { file, fill, folder } from "./hostility.ts";

describe("a damaged storage", () => {
  it.each([0, 0.2, 0.5, 0.99])(
    "is refused when a byte of a pack is wrong (%d), and nothing changes",
    async (at) => {
      const { outcome, left } = await withDamage(flip("packs/", at));
      expect(outcome).toMatchObject({
        code: "internal",
        message: expect.stringMatching(/damaged: packs\/.*changed/),
      });
      expect(left).toEqual(["a", "own"]);
    },
  );

  it("is refused when a pack or the manifest is gone or changed", async () => {
    for (const damage of [remove("packs/"), remove("manifests/"), flip("manifests/", 0.5)]) {
      const { outcome, left } = await withDamage(damage);
      expect(outcome).toMatchObject({ message: expect.stringMatching(/damaged/) });
      expect(left).toEqual(["a", "own"]);
    }
  });

  it("does without its index, lost or damaged, and collects nothing that is needed", async () => {
    for (const damage of [remove("indexes/"), flip("indexes/", 0.5)]) {
      const { bench, outcome, left } = await withDamage(damage);
      expect(outcome).toMatchObject({ work: { filesWritten: 3 } });
      expect(left).toEqual(["a", "b", "b/c", "big"]);
      expect(await bench.reopened().gc({ graceMs: 0 })).toMatchObject({ deleted: 0 });
      const again = await bench.reopened().checkpoint({ roots: bench.roots });
      expect(again.work.objectsWritten).toBe(1);
    }
  });

  it("hides no other checkpoint behind one damaged record", async () => {
    const bench = makeBench();
    const first = await bench.checkpoints.checkpoint({ roots: bench.roots });
    const second = await bench.checkpoints.checkpoint({ roots: bench.roots });
    await bench.storage.put(`checkpoints/${second.info.id}.json`, Buffer.from("{"));
    expect(await bench.reopened().list()).toEqual([first.info]);
    await expect(bench.reopened().get(second.info.id)).rejects.toThrow(/damaged/);
    await expect(bench.reopened().gc({ graceMs: 0 })).rejects.toThrow(/damaged/);
  });
});

describe("a hostile manifest", () => {
  const cases: [string, unknown[][]][] = [
    ["a path upwards", [file("../evil")]],
    ["a path upwards from inside", [folder("a"), file("a/../../evil")]],
    ["an absolute path", [file("/tmp/evil")]],
    ["a dot", [folder("."), file("./evil")]],
    ["an empty name", [folder("a"), file("a//evil")]],
    ["a NUL", [file("a\0b")]],
    ["a symlink above a file", [link("link", "/tmp"), file("link/evil")]],
    ["a file above a file", [file("a"), file("a/evil")]],
    ["no folder above a file", [file("nowhere/evil")]],
    ["a path twice", [link("a", "/tmp"), file("a")]],
    ["a symlink that becomes a folder", [link("a", "/tmp"), folder("a"), file("a/evil")]],
    ["paths out of order", [file("b"), file("a")]],
    ["set-user-id bits", [["f", "a", 0o4755, 1, 1, sha256("x")]]],
    ["a wrong size", [["f", "a", 0o644, 5, 1, sha256("x")]]],
    ["a negative size", [["f", "a", 0o644, -1, 1, sha256("x")]]],
    [
      "a wrong hash of the whole",
      [["f", "a", 0o644, 1_048_577, 1, sha256("lie"), [sha256("x"), sha256("x")]]],
    ],
    ["a kind that is none", [["c", "a", 0o644]]],
    ["no line at all", [{} as unknown[]]],
  ];

  it.each(cases)("with %s is refused before anything is written", async (_, rows) => {
    const bench = makeBench();
    plant(bench.workspace, { here: "stays" });
    const { info } = await bench.checkpoints.checkpoint({ roots: { home: bench.home } });
    const page = Buffer.from(rows.map((row) => JSON.stringify(row)).join("\n"));
    const writer = new PackWriter(bench.storage, () => false);
    for (const bytes of [page, Buffer.from("x")]) await writer.add({ sha256: sha256(bytes), bytes });
    await writer.finish();
    const manifest = Buffer.from(
      JSON.stringify({ version: 1, roots: { workspace: { exclude: [], pages: [sha256(page)] } } }),
    );
    await bench.storage.put(`manifests/${sha256(manifest)}`, manifest);
    const id = info.id.replace(/.$/, "0");
    const record = { ...info, id, hash: sha256(manifest) };
    await bench.storage.put(`checkpoints/${id}.json`, Buffer.from(JSON.stringify(record)));
    await expect(bench.reopened().restore(id, { roots: bench.roots })).rejects.toThrow(/damaged/);
    expect(Object.keys(look(bench.workspace))).toEqual(["here"]);
    expect(readdirSync(bench.folder).filter((name) => name.includes("evil"))).toEqual([]);
    expect(() => lstatSync("/tmp/evil")).toThrow(/ENOENT/);
  });

  it.each(["../x", "Workspace", "", "__proto__"])("is not made with a root named %j", async (name) => {
    const bench = makeBench();
    const roots = JSON.parse(`{${JSON.stringify(name)}:${JSON.stringify(bench.home)}}`);
    await expect(bench.checkpoints.checkpoint({ roots })).rejects.toMatchObject({ code: "invalid_request" });
  });
});

type Damage = (bench: Bench) => Promise<void>;

/** A restore from a damaged storage over a folder that has something in it. */
async function withDamage(damage: Damage): Promise<{ bench: Bench; outcome: unknown; left: string[] }> {
  const bench = makeBench();
  plant(bench.workspace, { a: "first content", "b/c": "second content", big: fill("m") });
  await bench.checkpoints.checkpoint({ roots: bench.roots });
  await damage(bench);
  const target = join(bench.folder, "target");
  plant(target, { a: "what was here", own: "mine" });
  const outcome = await bench
    .reopened()
    .restore("latest", { roots: { workspace: target } })
    .catch((error: unknown) => error);
  return { bench, outcome, left: Object.keys(look(target)) };
}

function remove(prefix: string): Damage {
  return async (bench) => {
    for (const key of await bench.objects(prefix)) await bench.storage.delete(key);
  };
}

/** Makes one bit wrong, that far into each object. */
function flip(prefix: string, at: number): Damage {
  return async ({ storage, objects }) => {
    for (const key of await objects(prefix)) {
      const bytes = Buffer.from((await storage.get(key)) ?? []);
      const place = Math.floor(bytes.length * at);
      bytes.writeUInt8(bytes.readUInt8(place) ^ 0x10, place);
      await storage.put(key, bytes);
    }
  };
}

function link(path: string, target: string): unknown[] {
  return ["l", path, target];
}
