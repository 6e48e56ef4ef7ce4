import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Catalog, createCatalog } from "../../src/catalog/index.ts";
import { createDriver } from "../../src/sqlite/driver.ts";
import { toListSql } from "../../src/catalog/sqlite/statements.ts";
import { catalogTestkit } from "../../src/catalog/testkit.ts";

catalogTestkit({
  name: "sqlite",
  describe,
  it,
  create: async () => {
    const folder = await mkdtemp(join(tmpdir(), "sluice-catalog-"));
    const clock = { now: Date.UTC(2026, 0, 2, 3, 4, 5, 678) };
    const open = (): Catalog => createCatalog({ folder, now: () => clock.now });
    let newest = open();
    return {
      catalog: newest,
      clock,
      reopen: async () => {
        await newest.close();
        newest = open();
        return newest;
      },
      dispose: async () => {
        await newest.close();
        await rm(folder, { recursive: true });
      },
    };
  },
});

describe("a catalog in a folder", () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "sluice-catalog-"));
  });
  afterEach(() => rm(folder, { recursive: true }));

  it.each(["body", "labels", "created_at", "updated_at", "revision"])(
    "with a document whose %s is damaged lists all others, page by page, writes on, and removes it",
    async (column) => {
      const open = (): Catalog => createCatalog({ folder });
      const catalog = open();
      for (const id of ["a", "b", "c", "d", "e"])
        await catalog.write("me", [{ op: "create", kind: "k", id, body: { id } }]);
      await catalog.close();
      const driver = createDriver(join(folder, "catalog.db"));
      driver.prepare(`UPDATE documents SET ${column} = ? WHERE id IN ('b', 'c', 'e')`).run("}{");
      driver.close();

      const again = open();
      const pages: string[][] = [];
      for (let after: number | undefined; ;) {
        const page = await again.list("me", { kind: "k", limit: 1, after });
        pages.push(page.map(({ id }) => id));
        if (page.length === 0) break;
        after = page.at(-1)?.ordinal;
      }
      expect(pages).toEqual([["a"], ["d"], []]);
      const down = await again.list("me", { kind: "k", limit: 10, order: "desc" });
      expect(down.map(({ id }) => id)).toEqual(["d", "a"]);
      await expect(again.find("me", "k", "c")).rejects.toMatchObject({ code: "internal" });
      await again.write("me", [{ op: "create", kind: "k", id: "f", body: {} }]);
      await again.write("me", [{ op: "remove", kind: "k", id: "c" }]);
      expect(await again.find("me", "k", "c")).toBeUndefined();
      await again.close();
    },
  );

  it("commits on another thread, and other callers wait for the commit in order", async () => {
    const catalog = createCatalog({ folder });
    let isWritten = false;
    const written = catalog
      .write("me", [{ op: "create", kind: "k", id: "a", body: { n: 1 } }])
      .then(() => (isWritten = true));
    const found = catalog.find("me", "k", "a");
    const replaced = catalog.write("me", [{ op: "replace", kind: "k", id: "a", expect: 1, body: { n: 2 } }]);
    const refused = catalog.write("me", [{ op: "create", kind: "k", id: "a", body: {} }]);
    const last = catalog.find("me", "k", "a");
    const closed = catalog.close();
    // A synchronous commit would be over by then.
    for (let hops = 0; hops < 100; hops++) await Promise.resolve();
    expect(isWritten).toBe(false);
    await written;
    expect(await found).toMatchObject({ body: { n: 1 } });
    expect(await replaced).toMatchObject([{ body: { n: 2 } }]);
    await expect(refused).rejects.toMatchObject({ code: "name_taken" });
    expect(await last).toMatchObject({ revision: 2, body: { n: 2 } });
    await closed;
    const again = createCatalog({ folder });
    expect(await again.find("me", "k", "a")).toMatchObject({ body: { n: 2 } });
    await again.close();
  });

  it("is closed to others, and makes its key only when there is a secret to encrypt", async () => {
    const catalog = createCatalog({ folder });
    expect(await readdir(folder)).not.toContain("catalog.key");
    await catalog.write("me", [{ op: "create", kind: "k", id: "a", body: {}, secret: "hush" }]);
    await catalog.close();
    for (const name of ["catalog.db", "catalog.key"]) {
      expect((await stat(join(folder, name))).mode & 0o077, name).toBe(0);
    }
    expect((await readFile(join(folder, "catalog.key"))).length).toBe(32);
  });

  it("has no secret in any of its files, also after it was changed and removed", async () => {
    const catalog = createCatalog({ folder });
    await catalog.write("me", [{ op: "create", kind: "k", id: "a", body: {}, secret: "first-secret" }]);
    await catalog.write("me", [
      { op: "replace", kind: "k", id: "a", expect: 1, body: {}, secret: "second-secret" },
    ]);
    await catalog.write("me", [{ op: "remove", kind: "k", id: "a" }]);
    for (const name of ["catalog.db", "catalog.db-wal"]) {
      expect((await readFile(join(folder, name))).includes("-secret"), name).toBe(false);
    }
    await catalog.close();
  });

  it("says so when the key is another one, and opens no secret with it", async () => {
    let catalog = createCatalog({ folder });
    await catalog.write("me", [{ op: "create", kind: "k", id: "a", body: {}, secret: "hush" }]);
    await catalog.close();
    await writeFile(join(folder, "catalog.key"), Buffer.alloc(32, 7));
    catalog = createCatalog({ folder });
    await expect(catalog.openSecret("me", "k", "a")).rejects.toThrow("cannot be opened with the key");
    await catalog.close();
  });

  it("does not open a secret that was moved to another document", async () => {
    const catalog = createCatalog({ folder });
    const [a, b] = await catalog.write("me", [
      { op: "create", kind: "k", id: "a", body: {}, secret: "of a" },
      { op: "create", kind: "k", id: "b", body: {}, secret: "of b" },
    ]);
    const driver = createDriver(join(folder, "catalog.db"));
    driver
      .prepare(
        "UPDATE secrets SET sealed = (SELECT sealed FROM secrets WHERE document = ?) WHERE document = ?",
      )
      .run(a?.ordinal ?? 0, b?.ordinal ?? 0);
    driver.close();
    await expect(catalog.openSecret("me", "k", "b")).rejects.toThrow("cannot be opened");
    await catalog.close();
  });

  it("refuses a database of another program, and changes nothing in it", async () => {
    await writeFile(join(folder, "catalog.db"), "no database at all, but long enough to look at twice");
    expect(() => createCatalog({ folder })).toThrow("is not a catalog of sluice");
    expect(await readFile(join(folder, "catalog.db"), "utf8")).toContain("no database at all");
  });

  it("is shared by two processes: one order, one revision, one content", async () => {
    const [one, two] = [createCatalog({ folder }), createCatalog({ folder })];
    const made = await Promise.all(
      [one, two].flatMap((catalog, at) =>
        [0, 1, 2].map((n) =>
          catalog.write("me", [
            { op: "create", kind: "k", id: `${at}-${n}`, body: {}, secret: `s${at}${n}` },
          ]),
        ),
      ),
    );
    expect(new Set(made.flat().map(({ ordinal }) => ordinal)).size).toBe(6);
    expect(await two.openSecret("me", "k", "0-0")).toBe("s00");
    const held = await one.bytes.write(sourceOf("content"));
    await two.write("me", [{ op: "create", kind: "k", id: "f", body: {}, bytes: [held.hash] }]);
    await held.release();
    expect((await two.bytes.read(held.hash))?.size).toBe(7);
    const change = { op: "replace", kind: "k", id: "f", expect: 1, body: {} } as const;
    const raced = await Promise.allSettled([one.write("me", [change]), two.write("me", [change])]);
    expect(raced.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
    await one.close();
    await two.close();
  });

  it("leaves no draft behind when a source breaks off", async () => {
    const catalog = createCatalog({ folder });
    await expect(catalog.bytes.write(broken())).rejects.toThrow("cut");
    expect(await readdir(join(folder, "files", "drafts"))).toEqual([]);
    await catalog.close();
  });

  it.each([
    ["nothing", {}],
    ["a cursor, backwards", { order: "desc", after: 9 }],
    ["archived ones too", { archived: true, after: 9 }],
    ["a parent", { parent: "p", after: 9 }],
    ["a label", { labels: { x: "1" }, order: "desc", after: 9 }],
    ["two labels", { labels: { x: "1", y: "2" } }],
    ["a range of time", { created: { gt: 1, lte: 2 }, order: "desc" }],
  ] as const)("finds a page by an index and in its order: %s", async (_, filter) => {
    const catalog = createCatalog({ folder });
    const driver = createDriver(join(folder, "catalog.db"));
    const { sql, values } = toListSql("me", { kind: "k", limit: 9, ...filter });
    const plan = driver.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...values);
    for (const { detail } of plan) expect(String(detail)).not.toMatch(/^SCAN|TEMP B-TREE/);
    expect(plan.length).toBeGreaterThan(0);
    driver.close();
    await catalog.close();
  });
});

async function* sourceOf(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}

async function* broken(): AsyncGenerator<Uint8Array> {
  yield Buffer.alloc(100_000);
  throw new Error("cut");
}
