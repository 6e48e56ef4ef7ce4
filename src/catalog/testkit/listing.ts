import assert from "node:assert/strict";
import { create, idsOf, OWNER, type Suite } from "./suite.ts";

export function listing({ it }: Suite): void {
  it("lists in the order of creation, either way, from any cursor", async ({ catalog }) => {
    const made = [];
    for (const id of ["e", "d", "c", "b", "a"]) made.push(await create(catalog, id));
    assert.deepEqual(await idsOf(catalog), ["e", "d", "c", "b", "a"]);
    assert.deepEqual(await idsOf(catalog, { order: "desc", limit: 2 }), ["a", "b"]);
    assert.deepEqual(await idsOf(catalog, { after: made[1]?.ordinal, limit: 2 }), ["c", "b"]);
    assert.deepEqual(await idsOf(catalog, { after: made[1]?.ordinal, order: "desc" }), ["e"]);
  });

  it("reads on from where it was when that one has gone, and gives no ordinal twice", async ({ catalog }) => {
    const made = [];
    for (const id of ["a", "b", "c"]) made.push(await create(catalog, id));
    for (const id of ["b", "c"]) await catalog.write(OWNER, [{ op: "remove", kind: "thing", id }]);
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
    await catalog.write(OWNER, [{ op: "replace", kind: "thing", id: "a", expect: 1, body: {}, labels }]);
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

  it("lets no clock that goes backwards change the order", async ({ catalog, clock }) => {
    const first = await create(catalog, "a");
    clock.now -= 60_000;
    const second = await create(catalog, "b");
    assert.equal(second.createdAt, first.createdAt);
    assert.deepEqual(await idsOf(catalog, { created: { gte: first.createdAt } }), ["a", "b"]);
  });
}
