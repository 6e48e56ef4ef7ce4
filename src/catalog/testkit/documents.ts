import assert from "node:assert/strict";
import { create, failsWith, idsOf, OWNER, type Suite } from "./suite.ts";

export function documents({ it, volatile }: Suite): void {
  it("answers what was created, as it was created", async ({ catalog, clock }) => {
    const body = { name: 'ü " \n', deep: [{ a: null }, 1.5, true] };
    const created = await create(catalog, "a", { body, parent: "p", labels: { colour: "red" } });
    assert.deepEqual(await catalog.find(OWNER, "thing", "a"), created);
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

  it("keeps what it was given, whatever becomes of the object", async ({ catalog }) => {
    const body = { list: [1] };
    await create(catalog, "a", { body });
    body.list.push(2);
    const found = await catalog.find(OWNER, "thing", "a");
    assert.deepEqual(found?.body, { list: [1] });
  });

  it("has one document of a kind and id, and keeps kinds and owners apart", async ({ catalog }) => {
    await create(catalog, "a");
    await failsWith("name_taken", create(catalog, "a"));
    await create(catalog, "a", { kind: "other" });
    await catalog.write("another", [{ op: "create", kind: "thing", id: "a", body: { theirs: true } }]);
    assert.deepEqual((await catalog.find(OWNER, "thing", "a"))?.body, { id: "a" });
    assert.equal((await catalog.list("another", { kind: "thing", limit: 10 })).length, 1);
    await catalog.write("another", [{ op: "remove", kind: "thing", id: "a" }]);
    assert.deepEqual(await idsOf(catalog), ["a"]);
  });

  it("knows whose a document is", async ({ catalog }) => {
    assert.deepEqual(await catalog.ownersOf("thing", "a"), []);
    await create(catalog, "a");
    await catalog.write("another", [{ op: "create", kind: "thing", id: "b", body: {} }]);
    await catalog.write("zoe", [{ op: "create", kind: "other", id: "a", body: {} }]);
    assert.deepEqual(await catalog.ownersOf("thing", "a"), [OWNER]);
    assert.deepEqual(await catalog.ownersOf("thing", "b"), ["another"]);
    await catalog.write("another", [{ op: "create", kind: "thing", id: "a", body: {} }]);
    assert.deepEqual(await catalog.ownersOf("thing", "a"), [OWNER, "another"].sort());
    assert.deepEqual(await catalog.ownersOf("thing", "none"), []);
  });

  it("replaces only what it was made from, and keeps what the change leaves out", async ({
    catalog,
    clock,
  }) => {
    const first = await create(catalog, "a", { labels: { x: "1" }, uniqueKey: "k", archived: true });
    clock.now += 5;
    const change = { op: "replace", kind: "thing", id: "a", expect: 1, body: { second: true } } as const;
    const [second] = await catalog.write(OWNER, [change]);
    assert.deepEqual(second, { ...first, revision: 2, updatedAt: clock.now, body: { second: true } });
    const refused = await failsWith("version_conflict", catalog.write(OWNER, [change]));
    assert.deepEqual([refused.facts["expected"], refused.facts["found"]], [1, 2]);
    await failsWith("not_found", catalog.write(OWNER, [{ ...change, id: "none" }]));
  });

  it("holds a unique key once, until it is given up", async ({ catalog }) => {
    const first = await create(catalog, "a", { uniqueKey: "k" });
    await failsWith("name_taken", create(catalog, "b", { uniqueKey: "k" }));
    await create(catalog, "c", { kind: "other", uniqueKey: "k" });
    const replace = { op: "replace", kind: "thing", id: "a", body: {} } as const;
    await catalog.write(OWNER, [{ ...replace, expect: first.revision, uniqueKey: "k" }]);
    await catalog.write(OWNER, [{ ...replace, expect: 2, uniqueKey: null }]);
    await create(catalog, "b", { uniqueKey: "k" });
    await failsWith("name_taken", catalog.write(OWNER, [{ ...replace, expect: 3, uniqueKey: "k" }]));
  });

  it("does all of a write or nothing", async ({ catalog }) => {
    await create(catalog, "a", { labels: { x: "1" } });
    const work = catalog.write(OWNER, [
      { op: "create", kind: "thing", id: "b", body: {}, secret: "s" },
      { op: "replace", kind: "thing", id: "a", expect: 1, body: {}, labels: {} },
      { op: "remove", kind: "thing", id: "none" },
    ]);
    await failsWith("not_found", work);
    assert.deepEqual(await idsOf(catalog, { labels: { x: "1" } }), ["a"]);
    assert.deepEqual(await idsOf(catalog), ["a"]);
    assert.equal((await catalog.find(OWNER, "thing", "a"))?.revision, 1);
  });

  it("removes a document, and its children where told", async ({ catalog }) => {
    await create(catalog, "p");
    await create(catalog, "c1", { parent: "p" });
    await create(catalog, "c2", { parent: "p", kind: "other" });
    await create(catalog, "d", { parent: "q" });
    await catalog.write(OWNER, [{ op: "remove", kind: "thing", id: "p", children: true }]);
    assert.deepEqual(await idsOf(catalog), ["d"]);
    assert.equal(await catalog.find(OWNER, "other", "c2"), undefined);
    await failsWith("not_found", catalog.write(OWNER, [{ op: "remove", kind: "thing", id: "p" }]));
  });

  if (volatile) return;
  it("has everything again after it was closed", async ({ catalog, reopen }) => {
    const created = await create(catalog, "a", { labels: { x: "1" }, secret: "hush" });
    const again = await reopen?.();
    assert.deepEqual(await again?.find(OWNER, "thing", "a"), created);
    assert.equal(await again?.openSecret(OWNER, "thing", "a"), "hush");
    assert.ok(again);
    assert.ok((await create(again, "b")).ordinal > created.ordinal);
  });
}
