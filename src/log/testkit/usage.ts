import assert from "node:assert/strict";
import { NO_COUNTS, type UsageRow } from "../kept/usage.ts";
import { append, createSession, toDeltas, type Suite } from "./suite.ts";

const ROW: UsageRow = {
  ...NO_COUNTS,
  day: "2026-11-18",
  model: "m",
  provider: "p",
  price: "usd",
  requests: 1,
  input: 10,
  usd: 0.5,
};

export function usage(suite: Suite): void {
  suite.it("books the usage of an append once, and adds it up", async ({ log, reopen }) => {
    await createSession(log, "s");
    await append(log, "s", toDeltas(1), { usage: [ROW, ROW] });
    await append(log, "s", toDeltas(1), { usage: [{ ...ROW, day: "2026-11-19" }] });
    const again = reopen ? await reopen() : log;
    const rows = await again.usage.list({});
    assert.deepEqual(rows, [
      { ...ROW, session: "s", requests: 2, input: 20, usd: 1 },
      { ...ROW, session: "s", day: "2026-11-19" },
    ]);
    assert.deepEqual(await again.usage.list({ from: "2026-11-19", model: "m", session: "s" }), [rows[1]]);
    assert.deepEqual(await again.usage.list({ to: "2026-11-17" }), []);
  });

  suite.it("books nothing for a batch that fails", async ({ log }) => {
    await createSession(log, "s");
    const batch = { epoch: 99, time: 1, events: toDeltas(1), usage: [ROW] };
    await assert.rejects(log.append("s", batch));
    assert.deepEqual(await log.usage.list({}), []);
  });

  suite.it("keeps the usage of deleted sessions, apart by tenant", async ({ log }) => {
    await log.create({ id: "a", spec: { agent: "scripted" }, owner: "test", time: 1, tenant: "one" });
    await log.create({ id: "b", spec: { agent: "scripted" }, owner: "test", time: 1, tenant: "two" });
    await append(log, "a", toDeltas(1), { usage: [ROW, { ...ROW, price: "unknown", usd: 0 }] });
    await append(log, "b", toDeltas(1), { usage: [ROW] });
    await log.remove("a");
    const total = await log.usage.total("one");
    assert.deepEqual(total, { ...NO_COUNTS, requests: 2, input: 20, usd: 0.5, unknown: 1 });
    assert.deepEqual((await log.usage.list({ tenant: "two" })).length, 1);
    assert.equal((await log.usage.total("nobody")).requests, 0);
  });
}
