import assert from "node:assert/strict";
import { chunksOf, create, failsWith, TENANT, store, textOf, type Suite } from "./suite.ts";

export function contents({ it, volatile }: Suite): void {
  it("gives contents back by their hash", async ({ catalog }) => {
    const held = await store(catalog, "some text, in small chunks");
    assert.equal(held.size, 26);
    assert.equal(await textOf(await catalog.bytes.read(held.hash)), "some text, in small chunks");
    assert.equal(await catalog.bytes.read("0".repeat(64)), undefined);
    assert.equal(await catalog.bytes.read("../../catalog.key"), undefined);
    const empty = await store(catalog, "");
    assert.equal((await catalog.bytes.read(empty.hash))?.size, 0);
  });

  it("keeps a content as long as a document names it, and no longer", async ({ catalog }) => {
    const held = await store(catalog, "shared");
    await create(catalog, "a", { bytes: [held.hash] });
    await create(catalog, "b", { bytes: [held.hash] });
    await held.release();
    await catalog.write(TENANT, [{ op: "remove", kind: "thing", id: "a" }]);
    assert.equal(await textOf(await catalog.bytes.read(held.hash)), "shared");
    const change = { op: "replace", kind: "thing", id: "b", expect: 1, body: {} } as const;
    await catalog.write(TENANT, [change]);
    assert.equal(await textOf(await catalog.bytes.read(held.hash)), "shared");
    await catalog.write(TENANT, [{ ...change, expect: 2, bytes: [] }]);
    assert.equal(await catalog.bytes.read(held.hash), undefined);
  });

  it("removes unused contents, but not while a caller holds them", async ({ catalog }) => {
    const [one, two] = [await store(catalog, "same"), await store(catalog, "same")];
    await one.release();
    await one.release();
    assert.equal(await textOf(await catalog.bytes.read(two.hash)), "same");
    await two.release();
    assert.equal(await catalog.bytes.read(two.hash), undefined);
    await failsWith("file_not_found", create(catalog, "a", { bytes: [two.hash] }));
    assert.equal(await catalog.find(TENANT, "thing", "a"), undefined);
  });

  it("keeps a content that is removed and used again at the same time", async ({ catalog }) => {
    const first = await store(catalog, "again");
    await create(catalog, "a", { bytes: [first.hash] });
    await first.release();
    const second = await store(catalog, "again");
    await catalog.write(TENANT, [{ op: "remove", kind: "thing", id: "a" }]);
    await create(catalog, "b", { bytes: [second.hash] });
    await second.release();
    assert.equal(await textOf(await catalog.bytes.read(second.hash)), "again");
  });

  it("removes a content when its time is over", async ({ catalog, clock }) => {
    const held = await store(catalog, "for an hour");
    await create(catalog, "a", { bytes: [held.hash], bytesUntil: clock.now + 3_600_000 });
    await held.release();
    clock.now += 3_599_999;
    await create(catalog, "b");
    assert.equal(await textOf(await catalog.bytes.read(held.hash)), "for an hour");
    clock.now += 1;
    await create(catalog, "c");
    assert.equal(await catalog.bytes.read(held.hash), undefined);
    assert.ok(await catalog.find(TENANT, "thing", "a"));
  });

  it("refuses a source that is too large, and fails with one that breaks off", async ({ catalog }) => {
    await failsWith("too_large", catalog.bytes.write(chunksOf("x".repeat(100)), { limit: 99 }));
    const whole = await catalog.bytes.write(chunksOf("x".repeat(100)), { limit: 100 });
    assert.equal(whole.size, 100);
    await assert.rejects(catalog.bytes.write(broken()), /the line was cut/);
  });

  if (volatile) return;
  it("has the contents again after it was closed", async ({ catalog, reopen }) => {
    const held = await store(catalog, "to be kept");
    await create(catalog, "a", { bytes: [held.hash] });
    await held.release();
    const again = await reopen?.();
    assert.equal(await textOf(await again?.bytes.read(held.hash)), "to be kept");
  });
}

async function* broken(): AsyncGenerator<Uint8Array> {
  yield* chunksOf("half");
  throw new Error("the line was cut");
}

export function secrets({ it }: Suite): void {
  it("returns a secret on request, and shows it nowhere else", async ({ catalog }) => {
    const created = await create(catalog, "a", { secret: "hush-hush ü" });
    assert.equal(await catalog.openSecret(TENANT, "thing", "a"), "hush-hush ü");
    const seen = [
      created,
      await catalog.find(TENANT, "thing", "a"),
      await catalog.list(TENANT, { kind: "thing", limit: 9 }),
    ];
    assert.ok(!JSON.stringify(seen).includes("hush"));
  });

  it("keeps it through a replacement, changes it, and forgets it", async ({ catalog }) => {
    await create(catalog, "a", { secret: "one" });
    const replace = { op: "replace", kind: "thing", id: "a", body: {} } as const;
    await catalog.write(TENANT, [{ ...replace, expect: 1 }]);
    assert.equal(await catalog.openSecret(TENANT, "thing", "a"), "one");
    await catalog.write(TENANT, [{ ...replace, expect: 2, secret: "two" }]);
    assert.equal(await catalog.openSecret(TENANT, "thing", "a"), "two");
    await catalog.write(TENANT, [{ ...replace, expect: 3, secret: null }]);
    assert.equal(await catalog.openSecret(TENANT, "thing", "a"), undefined);
  });

  it("gives a new document of the same id, and another tenant, nothing of the old one", async ({
    catalog,
  }) => {
    await create(catalog, "a", { secret: "one" });
    assert.equal(await catalog.openSecret("another", "thing", "a"), undefined);
    await catalog.write(TENANT, [{ op: "remove", kind: "thing", id: "a" }]);
    await create(catalog, "a");
    assert.equal(await catalog.openSecret(TENANT, "thing", "a"), undefined);
  });
}
