import assert from "node:assert/strict";
import { create, OWNER, type Suite } from "./suite.ts";

export function secrets({ it }: Suite): void {
  it("gives a secret back to whoever asks for it, and shows it nowhere else", async ({ catalog }) => {
    const created = await create(catalog, "a", { secret: "hush-hush ü" });
    assert.equal(await catalog.openSecret(OWNER, "thing", "a"), "hush-hush ü");
    const seen = [
      created,
      await catalog.find(OWNER, "thing", "a"),
      await catalog.list(OWNER, { kind: "thing", limit: 9 }),
    ];
    assert.ok(!JSON.stringify(seen).includes("hush"));
  });

  it("keeps it through a replacement, changes it, and forgets it", async ({ catalog }) => {
    await create(catalog, "a", { secret: "one" });
    const replace = { op: "replace", kind: "thing", id: "a", body: {} } as const;
    await catalog.write(OWNER, [{ ...replace, expect: 1 }]);
    assert.equal(await catalog.openSecret(OWNER, "thing", "a"), "one");
    await catalog.write(OWNER, [{ ...replace, expect: 2, secret: "two" }]);
    assert.equal(await catalog.openSecret(OWNER, "thing", "a"), "two");
    await catalog.write(OWNER, [{ ...replace, expect: 3, secret: null }]);
    assert.equal(await catalog.openSecret(OWNER, "thing", "a"), undefined);
  });

  it("gives a namesake nothing of the one before, nor another owner", async ({ catalog }) => {
    await create(catalog, "a", { secret: "one" });
    assert.equal(await catalog.openSecret("another", "thing", "a"), undefined);
    await catalog.write(OWNER, [{ op: "remove", kind: "thing", id: "a" }]);
    await create(catalog, "a");
    assert.equal(await catalog.openSecret(OWNER, "thing", "a"), undefined);
  });
}
