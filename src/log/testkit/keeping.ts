import assert from "node:assert/strict";
import { append, createSession, isGapless, readAll, TIME, toDeltas } from "./suite.ts";
import type { Suite } from "./suite.ts";

export function keeping(suite: Suite): void {
  suite.it("keeps the spool mark and the snapshot of the newest batch that had them", async ({ log }) => {
    await createSession(log, "s");
    await append(log, "s", toDeltas(2), { spool: { process: 1, offset: 100, checkpoint: { open: ["x"] } } });
    await append(log, "s", toDeltas(2), { snapshot: { status: "idle" }, time: TIME + 1000 });
    await append(log, "s", toDeltas(1), { spool: { process: 1, offset: 5_000_000_000 }, time: TIME + 2000 });
    const row = await log.find("s");
    assert.deepEqual(row?.spool, {
      process: 1,
      offset: 5_000_000_000,
      checkpoint: { open: ["x"] },
      checkpointOffset: 100,
    });
    assert.deepEqual(row?.snapshot, { at: 4, state: { status: "idle" } });
    assert.deepEqual([row?.createdAt, row?.updatedAt], [TIME, TIME + 2000]);

    await append(log, "s", [], { spool: { process: 2, offset: 0 } });
    assert.deepEqual((await log.find("s"))?.spool, { process: 2, offset: 0 });
    await append(log, "s", [], { spool: { process: 2, offset: 7, checkpoint: null }, snapshot: null });
    const last = await log.find("s");
    assert.deepEqual(last?.spool, { process: 2, offset: 7, checkpoint: null, checkpointOffset: 7 });
    assert.deepEqual(last?.snapshot, { at: 5, state: null });
    assert.deepEqual((await log.list({ limit: 1 }))[0], last);
  });

  suite.it("keeps facts apart from the objects that brought them", async ({ log }) => {
    const spec = { agent: "scripted", metadata: { n: 1 } };
    await log.create({ id: "s", spec, owner: "o", time: TIME });
    const state = { list: [1] };
    await append(log, "s", [], { snapshot: state });
    state.list.push(2);
    spec.metadata.n = 2;
    const row = await log.find("s");
    assert.deepEqual(row?.snapshot?.state, { list: [1] });
    assert.deepEqual(row?.spec.metadata, { n: 1 });
  });

  if (suite.volatile) return;

  suite.it("keeps everything over a restart", async (subject) => {
    const { log } = subject;
    await createSession(log, "s");
    await createSession(log, "t");
    const big = "z".repeat(100_000);
    await append(log, "s", toDeltas(1500, { raw: true }), {
      active: true,
      spool: { process: 3, offset: 9, checkpoint: [1] },
    });
    await append(
      log,
      "s",
      [{ type: "workspace.diffed", source: "daemon", data: { path: ".", diff: big }, raw: `"${big}"` }],
      {
        snapshot: { at: "turn" },
        key: { key: "k", fingerprint: "f", answer: "a" },
      },
    );
    await log.claim("t", { owner: "second", from: 1 });
    await log.trim("s", 3);
    const rows = await log.list({ limit: 10 });
    const events = await readAll(log, "s", { after: 3, raw: true });

    const reopened = await subject.reopen?.();
    assert.ok(reopened, "a log that survives can be opened again");
    assert.deepEqual(await reopened.list({ limit: 10 }), rows);
    const again = await readAll(reopened, "s", { after: 3, raw: true });
    assert.deepEqual(again, events);
    isGapless(again, 4);
    assert.deepEqual(
      (await reopened.active()).map((row) => row.id),
      ["s"],
    );
    assert.deepEqual(await reopened.recall("s", "k"), { fingerprint: "f", answer: "a" });
    assert.equal((await append(reopened, "s", toDeltas(1))).first, 1502);
    await append(reopened, "t", toDeltas(1), { epoch: 2 });
  });
}
