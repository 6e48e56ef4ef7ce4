import assert from "node:assert/strict";
import { append, createSession, failsWith, readAll, toDeltas } from "./suite.ts";
import type { Suite } from "./suite.ts";

export function ownership(suite: Suite): void {
  suite.it("fences the writer of an older epoch", async ({ log }) => {
    await createSession(log, "s");
    await append(log, "s", toDeltas(1));
    assert.equal(await log.claim("s", { owner: "second", from: 1 }), 2);
    const failure = await failsWith("fenced", append(log, "s", toDeltas(1)));
    assert.equal(failure.facts.owner, "second");
    assert.equal((await readAll(log, "s")).length, 1);
    const { first } = await append(log, "s", toDeltas(1), { epoch: 2 });
    assert.equal(first, 2);
    const row = await log.find("s");
    assert.deepEqual([row?.epoch, row?.owner], [2, "second"]);
  });

  suite.it("refuses an epoch that nobody has claimed yet", async ({ log }) => {
    await createSession(log, "s");
    await failsWith("fenced", append(log, "s", toDeltas(1), { epoch: 7 }));
    assert.equal((await log.find("s"))?.head, 0);
  });

  suite.it(
    "leaves a session that has become active to its owner, where only an idle one is wanted",
    async ({ log }) => {
      await createSession(log, "s");
      await append(log, "s", toDeltas(1), { active: true });
      await failsWith("fenced", log.claim("s", { owner: "second", from: 1, onlyIdle: true }));
      await append(log, "s", toDeltas(1), { active: false });
      assert.equal(await log.claim("s", { owner: "second", from: 1, onlyIdle: true }), 2);
    },
  );

  suite.it("lets one of many claims win", async ({ log }) => {
    await createSession(log, "s");
    const claims = await Promise.allSettled(
      Array.from({ length: 8 }, (_, n) => log.claim("s", { owner: `owner ${n}`, from: 1 })),
    );
    const won = claims.flatMap((claim, n) => (claim.status === "fulfilled" ? [n] : []));
    assert.equal(won.length, 1);
    assert.equal((await log.find("s"))?.owner, `owner ${won[0]}`);
    await failsWith("fenced", log.claim("s", { owner: "late", from: 1 }));
    assert.equal(await log.claim("s", { owner: "next", from: 2 }), 3);
  });
}
