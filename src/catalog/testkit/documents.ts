import assert from "node:assert/strict";
import { create, failsWith, idsOf, TENANT, type Suite } from "./suite.ts";

export function documents({ it, volatile }: Suite): void {
  it("returns a created document unchanged", async ({ catalog, clock }) => {
    const body = { name: 'ü " \n', deep: [{ a: null }, 1.5, true] };
    const created = await create(catalog, "a", { body, parent: "p", labels: { colour: "red" } });
    assert.deepEqual(await catalog.find(TENANT, "thing", "a"), created);
    const { ordinal } = created;
    const times = { createdAt: clock.now, updatedAt: clock.now };
    const labels = { colour: "red" };
    const wanted = {
      kind: "thing",
      id: "a",
      parent: "p",
      body,
      labels,
      archived: false,
      revision: 1,
      ordinal,
    };
    assert.deepEqual(created, { ...wanted, ...times });
  });

  it("keeps no reference to the caller's object", async ({ catalog }) => {
    const body = { list: [1] };
    await create(catalog, "a", { body });
    body.list.push(2);
    const found = await catalog.find(TENANT, "thing", "a");
    assert.deepEqual(found?.body, { list: [1] });
  });

  it("has one document of a kind and id, and keeps kinds and tenants apart", async ({ catalog }) => {
    await create(catalog, "a");
    await failsWith("name_taken", create(catalog, "a"));
    await create(catalog, "a", { kind: "other" });
    await catalog.write("another", [{ op: "create", kind: "thing", id: "a", body: { theirs: true } }]);
    assert.deepEqual((await catalog.find(TENANT, "thing", "a"))?.body, { id: "a" });
    assert.equal((await catalog.list("another", { kind: "thing", limit: 10 })).length, 1);
    await catalog.write("another", [{ op: "remove", kind: "thing", id: "a" }]);
    assert.deepEqual(await idsOf(catalog), ["a"]);
  });

  it("knows the tenants of a document", async ({ catalog }) => {
    assert.deepEqual(await catalog.tenantsOf("thing", "a"), []);
    await create(catalog, "a");
    await catalog.write("another", [{ op: "create", kind: "thing", id: "b", body: {} }]);
    await catalog.write("zoe", [{ op: "create", kind: "other", id: "a", body: {} }]);
    assert.deepEqual(await catalog.tenantsOf("thing", "a"), [TENANT]);
    assert.deepEqual(await catalog.tenantsOf("thing", "b"), ["another"]);
    await catalog.write("another", [{ op: "create", kind: "thing", id: "a", body: {} }]);
    assert.deepEqual(await catalog.tenantsOf("thing", "a"), [TENANT, "another"].sort());
    assert.deepEqual(await catalog.tenantsOf("thing", "none"), []);
  });

  it("replaces only the expected revision, and keeps the fields that the change leaves out", async ({
    catalog,
    clock,
  }) => {
    const first = await create(catalog, "a", { labels: { x: "1" }, uniqueKey: "k", archived: true });
    clock.now += 5;
    const change = { op: "replace", kind: "thing", id: "a", expect: 1, body: { second: true } } as const;
    const [second] = await catalog.write(TENANT, [change]);
    assert.deepEqual(second, { ...first, revision: 2, updatedAt: clock.now, body: { second: true } });
    const refused = await failsWith("version_conflict", catalog.write(TENANT, [change]));
    assert.deepEqual([refused.facts["expected"], refused.facts["found"]], [1, 2]);
    await failsWith("not_found", catalog.write(TENANT, [{ ...change, id: "none" }]));
  });

  it("holds a unique key once, until it is given up", async ({ catalog }) => {
    const first = await create(catalog, "a", { uniqueKey: "k" });
    await failsWith("name_taken", create(catalog, "b", { uniqueKey: "k" }));
    await create(catalog, "c", { kind: "other", uniqueKey: "k" });
    const replace = { op: "replace", kind: "thing", id: "a", body: {} } as const;
    await catalog.write(TENANT, [{ ...replace, expect: first.revision, uniqueKey: "k" }]);
    await catalog.write(TENANT, [{ ...replace, expect: 2, uniqueKey: null }]);
    await create(catalog, "b", { uniqueKey: "k" });
    await failsWith("name_taken", catalog.write(TENANT, [{ ...replace, expect: 3, uniqueKey: "k" }]));
  });

  it("does all of a write or nothing", async ({ catalog }) => {
    await create(catalog, "a", { labels: { x: "1" } });
    const work = catalog.write(TENANT, [
      { op: "create", kind: "thing", id: "b", body: {}, secret: "s" },
      { op: "replace", kind: "thing", id: "a", expect: 1, body: {}, labels: {} },
      { op: "remove", kind: "thing", id: "none" },
    ]);
    await failsWith("not_found", work);
    assert.deepEqual(await idsOf(catalog, { labels: { x: "1" } }), ["a"]);
    assert.deepEqual(await idsOf(catalog), ["a"]);
    assert.equal((await catalog.find(TENANT, "thing", "a"))?.revision, 1);
  });

  it("removes a document, and its children where told", async ({ catalog }) => {
    await create(catalog, "p");
    await create(catalog, "c1", { parent: "p" });
    await create(catalog, "c2", { parent: "p", kind: "other" });
    await create(catalog, "d", { parent: "q" });
    await catalog.write(TENANT, [{ op: "remove", kind: "thing", id: "p", children: true }]);
    assert.deepEqual(await idsOf(catalog), ["d"]);
    assert.equal(await catalog.find(TENANT, "other", "c2"), undefined);
    await failsWith("not_found", catalog.write(TENANT, [{ op: "remove", kind: "thing", id: "p" }]));
  });

  if (volatile) return;
  it("has everything again after it was closed", async ({ catalog, reopen }) => {
    const created = await create(catalog, "a", { labels: { x: "1" }, secret: "hush" });
    const again = await reopen?.();
    assert.deepEqual(await again?.find(TENANT, "thing", "a"), created);
    assert.equal(await again?.openSecret(TENANT, "thing", "a"), "hush");
    assert.ok(again);
    assert.ok((await create(again, "b")).ordinal > created.ordinal);
  });
}

export function listing({ it }: Suite): void {
  it("lists in the order of creation, either way, from any cursor", async ({ catalog }) => {
    const made = [];
    for (const id of ["e", "d", "c", "b", "a"]) made.push(await create(catalog, id));
    assert.deepEqual(await idsOf(catalog), ["e", "d", "c", "b", "a"]);
    assert.deepEqual(await idsOf(catalog, { order: "desc", limit: 2 }), ["a", "b"]);
    assert.deepEqual(await idsOf(catalog, { after: made[1]?.ordinal, limit: 2 }), ["c", "b"]);
    assert.deepEqual(await idsOf(catalog, { after: made[1]?.ordinal, order: "desc" }), ["e"]);
  });

  it("reads on from a cursor whose document is gone, and gives no ordinal twice", async ({ catalog }) => {
    const made = [];
    for (const id of ["a", "b", "c"]) made.push(await create(catalog, id));
    for (const id of ["b", "c"]) await catalog.write(TENANT, [{ op: "remove", kind: "thing", id }]);
    const last = made[2];
    assert.ok(last && (await create(catalog, "d")).ordinal > last.ordinal);
    assert.deepEqual(await idsOf(catalog, { after: made[1]?.ordinal }), ["d"]);
  });

  it("filters by parent, labels, ids and whether it is archived, all at once", async ({ catalog }) => {
    await create(catalog, "a", { parent: "p", labels: { x: "1", y: "1" } });
    await create(catalog, "b", { parent: "p", labels: { x: "1", y: "2" }, archived: true });
    await create(catalog, "c", { parent: "q", labels: { x: "1" } });
    await create(catalog, "d", { labels: { x: "2" } });
    assert.deepEqual(await idsOf(catalog), ["a", "c", "d"]);
    assert.deepEqual(await idsOf(catalog, { archived: true }), ["a", "b", "c", "d"]);
    assert.deepEqual(await idsOf(catalog, { parent: "p" }), ["a"]);
    assert.deepEqual(await idsOf(catalog, { labels: { x: "1" } }), ["a", "c"]);
    assert.deepEqual(await idsOf(catalog, { labels: { x: "1", y: "2" }, archived: true }), ["b"]);
    assert.deepEqual(await idsOf(catalog, { labels: { z: "1" } }), []);
    assert.deepEqual(await idsOf(catalog, { ids: ["d", "a", "none"] }), ["a", "d"]);
    assert.deepEqual(await idsOf(catalog, { ids: [] }), []);
  });

  it("forgets the labels that a replacement takes away", async ({ catalog }) => {
    await create(catalog, "a", { labels: { x: "1" } });
    const labels = { x: "2" };
    await catalog.write(TENANT, [{ op: "replace", kind: "thing", id: "a", expect: 1, body: {}, labels }]);
    assert.deepEqual(await idsOf(catalog, { labels: { x: "1" } }), []);
    assert.deepEqual(await idsOf(catalog, { labels: { x: "2" } }), ["a"]);
  });

  it("filters by time, to the millisecond", async ({ catalog, clock }) => {
    const start = clock.now;
    for (const id of ["a", "b", "c"]) {
      await create(catalog, id);
      clock.now += 10;
    }
    assert.deepEqual(await idsOf(catalog, { created: { gt: start } }), ["b", "c"]);
    assert.deepEqual(await idsOf(catalog, { created: { gte: start + 10 } }), ["b", "c"]);
    assert.deepEqual(await idsOf(catalog, { created: { lt: start + 10 } }), ["a"]);
    assert.deepEqual(await idsOf(catalog, { created: { lte: start + 10 }, order: "desc" }), ["b", "a"]);
    assert.deepEqual(await idsOf(catalog, { created: { gt: start, lt: start + 20 } }), ["b"]);
    assert.deepEqual(await idsOf(catalog, { created: { gt: start + 20 } }), []);
    assert.deepEqual(await idsOf(catalog, { created: { lt: start } }), []);
    assert.deepEqual(await idsOf(catalog, { created: { lte: start + 99 } }), ["a", "b", "c"]);
  });

  it("keeps the order when the clock goes backwards", async ({ catalog, clock }) => {
    const first = await create(catalog, "a");
    clock.now -= 60_000;
    const second = await create(catalog, "b");
    assert.equal(second.createdAt, first.createdAt);
    assert.deepEqual(await idsOf(catalog, { created: { gte: first.createdAt } }), ["a", "b"]);
  });
}
