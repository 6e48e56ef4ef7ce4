import assert from "node:assert/strict";
import { SluiceEvent, type EventDraft } from "../../contract/index.ts";
import { append, createSession, failsWith, isGapless, readAll, TIME, toDeltas, type Suite } from "./suite.ts";

export function appending(suite: Suite): void {
  suite.it("numbers the events without a gap, in batches of any size", async ({ log }) => {
    await createSession(log, "s");
    let expected = 1;
    for (const size of [1, 3, 0, 1500, 1, 1024, 1025]) {
      const appended = await append(log, "s", toDeltas(size));
      assert.equal(appended.first, expected);
      assert.equal(appended.last, expected + size - 1);
      expected += size;
    }
    const events = await readAll(log, "s");
    assert.equal(events.length, expected - 1);
    isGapless(events, 1);
    assert.equal((await log.find("s"))?.head, expected - 1);
  });

  suite.it("numbers two sessions apart, and appends at the same time in order", async ({ log }) => {
    await createSession(log, "a");
    await createSession(log, "b");
    await Promise.all(Array.from({ length: 20 }, (_, n) => append(log, n % 2 ? "a" : "b", toDeltas(7))));
    for (const id of ["a", "b"]) {
      const events = await readAll(log, id);
      assert.equal(events.length, 70);
      isGapless(events, 1);
    }
  });

  suite.it("appends in the order of the calls, also long ones", async ({ log }) => {
    await createSession(log, "s");
    const sizes = [3, 2000, 5, 2000, 2000, 1, 7];
    const appends = sizes.map((size, batch) => append(log, "s", toDeltas(size, { from: batch * 10_000 })));
    // A call that is made after an append sees its events.
    const row = await log.find("s");
    assert.equal(row?.head, 6016);
    let expected = 1;
    for (const [index, appended] of (await Promise.all(appends)).entries()) {
      assert.equal(appended.first, expected);
      expected += sizes[index] as number;
    }
    isGapless(await readAll(log, "s"), 1);
  });

  suite.it("wakes a reader that waits at the head of a long append", async ({ log }) => {
    await createSession(log, "s");
    const { signal } = new AbortController();
    const waiting = log.moved("s", 0, { signal });
    const appending = append(log, "s", toDeltas(3000));
    const late = log.moved("s", 2999, { signal });
    await Promise.all([waiting, late, appending]);
    assert.equal((await log.read("s", { after: 2999, limit: 10 })).length, 1);
  });

  suite.it("refuses an append that depends on a failed one", async ({ log }) => {
    await createSession(log, "s");
    await append(log, "s", toDeltas(2000), { after: 0 });
    await failsWith("fenced", append(log, "s", toDeltas(5), { after: 2001 }));
    // A failed append fails those that depend on it.
    const chain = [
      append(log, "s", toDeltas(2000), { after: 2000, epoch: 7 }),
      append(log, "s", toDeltas(2000), { after: 4000 }),
      append(log, "s", toDeltas(3), { after: 6000 }),
    ];
    await Promise.all(chain.map((each) => failsWith("fenced", each)));
    assert.equal((await log.find("s"))?.head, 2000);
    assert.equal((await append(log, "s", toDeltas(3), { after: 2000 })).last, 2003);
  });

  suite.it("writes the contract's envelope, once and for all", async ({ log }) => {
    await createSession(log, "s");
    const drafts: EventDraft[] = [
      { type: "session.started", source: "daemon", data: {} },
      {
        type: "item.delta",
        source: "agent",
        native_session_id: 'n"1',
        turn_id: "turn_1",
        parent_id: "itm_0",
        data: { item_id: "itm_1", native_item_id: "x", delta: '\u2028 \ud83d\ude00 \0 \ud800 \\ " \n' },
      },
      { type: "item.delta", source: "agent", data: { item_id: "itm_1", delta: "\ud800" } },
      { type: "error", source: "daemon", data: { message: "m", details: { deep: [1, null, "x"] } } },
    ];
    await append(log, "s", drafts);
    const stored = await readAll(log, "s");
    for (const [index, event] of stored.entries()) {
      const draft = drafts[index] as EventDraft;
      const { event_id, ...rest } = SluiceEvent.parse(JSON.parse(event.body));
      assert.match(event_id, /^evt_[0-9a-z]+$/);
      assert.deepEqual(rest, {
        ...draft,
        sequence: index + 1,
        time: new Date(TIME).toISOString(),
        session_id: "s",
        synthetic: draft.source === "daemon",
      });
      assert.ok(event.body.startsWith(`{"sequence":${index + 1},"type":"${draft.type}",`));
      assert.equal(event.type, draft.type);
    }
    const ids = new Set(stored.map((event) => JSON.parse(event.body).event_id));
    assert.equal(ids.size, drafts.length);
  });

  suite.it("appends a batch as a whole or not at all", async ({ log }) => {
    await createSession(log, "s");
    const key = { key: "k", fingerprint: "f", answer: "a" };
    await append(log, "s", toDeltas(2), { key, spool: { process: 1, offset: 10 } });
    const before = await log.find("s");
    const again = {
      key,
      snapshot: { n: 1 },
      active: true,
      spool: { process: 1, offset: 20, checkpoint: 1 },
      time: TIME + 5,
    };
    await failsWith("idempotency_conflict", append(log, "s", toDeltas(3000), again));
    assert.deepEqual(await log.find("s"), before);
    assert.equal((await readAll(log, "s")).length, 2);
    const { first } = await append(log, "s", toDeltas(1));
    assert.equal(first, 3);
  });

  suite.it("remembers the answer under an idempotency key, per session", async ({ log }) => {
    await createSession(log, "s");
    await createSession(log, "other");
    assert.equal(await log.recall("s", "k"), undefined);
    await append(log, "s", toDeltas(1), { key: { key: "k", fingerprint: "f", answer: '{"a":1}' } });
    assert.deepEqual(await log.recall("s", "k"), { fingerprint: "f", answer: '{"a":1}' });
    assert.equal(await log.recall("other", "k"), undefined);
    await append(log, "other", toDeltas(1), { key: { key: "k", fingerprint: "g", answer: "b" } });
    assert.deepEqual(await log.recall("other", "k"), { fingerprint: "g", answer: "b" });
    await append(log, "other", toDeltas(1), { key: { key: "empty", fingerprint: "", answer: "" } });
    assert.deepEqual(await log.recall("other", "empty"), { fingerprint: "", answer: "" });
  });
}

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

  suite.it("refuses an unclaimed epoch", async ({ log }) => {
    await createSession(log, "s");
    await failsWith("fenced", append(log, "s", toDeltas(1), { epoch: 7 }));
    assert.equal((await log.find("s"))?.head, 0);
  });

  suite.it("leaves an active session to its writer, where only an idle one is wanted", async ({ log }) => {
    await createSession(log, "s");
    await append(log, "s", toDeltas(1), { active: true });
    await failsWith("fenced", log.claim("s", { owner: "second", from: 1, onlyIdle: true }));
    await append(log, "s", toDeltas(1), { active: false });
    assert.equal(await log.claim("s", { owner: "second", from: 1, onlyIdle: true }), 2);
  });

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
