import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { look, makeBench, plant, settle } from "./bench.ts";

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
  it("deletes only unreferenced contents", async () => {
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
    // The first pack is nearly dead, so its live part moves.
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

  it("gives other writers a grace period, in which they can use old contents again", async () => {
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

function toText(n: number): string {
  return `${n} `.repeat(3000);
}
