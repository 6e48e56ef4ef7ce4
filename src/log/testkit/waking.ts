import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import type { StoredEvent } from "../port.ts";
import { append, createSession, failsWith, isGapless, toDeltas } from "./suite.ts";
import type { Suite } from "./suite.ts";

export function waking(suite: Suite): void {
  suite.it("wakes a reader once there is something to read", async ({ log }) => {
    await createSession(log, "s");
    const { signal } = new AbortController();
    const woken = log.moved("s", 0, { signal }).then(() => log.read("s", { after: 0, limit: 10 }));
    await append(log, "s", toDeltas(3));
    assert.equal((await woken).length, 3);
    await log.moved("s", 2, { signal });
  });

  suite.it("does not wake a reader for events that it has read", async ({ log }) => {
    await createSession(log, "s");
    await createSession(log, "other");
    await append(log, "s", toDeltas(3));
    const { signal } = new AbortController();
    let woken = false;
    const wait = log.moved("s", 5, { signal }).then(() => (woken = true));
    await append(log, "other", toDeltas(10));
    await append(log, "s", toDeltas(2));
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(woken, false);
    await append(log, "s", toDeltas(1));
    await wait;
  });

  suite.it("gives readers at the head every event once, while it grows", async ({ log }) => {
    await createSession(log, "s");
    const { signal } = new AbortController();
    const follow = async (limit: number): Promise<StoredEvent[]> => {
      const seen: StoredEvent[] = [];
      while (seen.length < 3000) {
        const page = await log.read("s", { after: seen.length, limit });
        seen.push(...page);
        if (page.length === 0) await log.moved("s", seen.length, { signal });
      }
      return seen;
    };
    const readers = [1, 7, 100, 5000].map(follow);
    for (let n = 0; n < 100; n++) {
      await append(log, "s", toDeltas(30));
      if (n % 10 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    for (const seen of await Promise.all(readers)) isGapless(seen, 1);
  });

  suite.it("rejects an aborted reader with its reason", async ({ log }) => {
    await createSession(log, "s");
    const leaving = new AbortController();
    const waits = Array.from({ length: 10_000 }, () => log.moved("s", 0, { signal: leaving.signal }));
    const outcomes = Promise.allSettled(waits);
    await new Promise((resolve) => setImmediate(resolve));
    assert.ok(getEventListeners(leaving.signal, "abort").length > 0);
    const reason = new Error("gone");
    leaving.abort(reason);
    for (const outcome of await outcomes)
      assert.ok(outcome.status === "rejected" && outcome.reason === reason);
    assert.equal(getEventListeners(leaving.signal, "abort").length, 0);
    await assert.rejects(log.moved("s", 0, { signal: leaving.signal }), reason);
  });

  suite.it("leaves nothing on the signal of a reader that stays", async ({ log }) => {
    await createSession(log, "s");
    const { signal } = new AbortController();
    for (let n = 0; n < 50; n++) {
      const woken = log.moved("s", n, { signal });
      await append(log, "s", toDeltas(1));
      await woken;
    }
    assert.equal(getEventListeners(signal, "abort").length, 0);
  });

  suite.it("wakes the readers of a session that is removed", async ({ log }) => {
    await createSession(log, "s");
    await append(log, "s", toDeltas(1));
    const { signal } = new AbortController();
    const woken = log.moved("s", 1, { signal });
    await new Promise((resolve) => setImmediate(resolve));
    await log.remove("s");
    await woken;
    await failsWith("session_not_found", log.read("s", { after: 1, limit: 1 }));
    await log.moved("s", 1, { signal });
  });

  suite.it("lets open readers of a removed session read it to its end", async ({ log }) => {
    const { signal } = new AbortController();
    await createSession(log, "s");
    await append(log, "s", toDeltas(3));
    const { ordinal = 0 } = (await log.find("s")) ?? {};
    const readers = [log.hold(ordinal), log.hold(ordinal)];
    const woken = log.moved("s", 3, { signal, ordinal });
    await log.remove("s");
    await woken;

    assert.equal(await log.find("s"), undefined);
    assert.deepEqual(await log.list({ limit: 10 }), []);
    assert.deepEqual(await log.active(), []);
    await failsWith("session_not_found", log.read("s", { after: 0, limit: 9 }));
    await failsWith("session_not_found", append(log, "s", toDeltas(1)));
    const { epoch } = await log.create({ id: "s", spec: { agent: "scripted" }, owner: "x", time: 1 });
    await append(log, "s", toDeltas(5), { epoch });
    const read = async (after: number): Promise<number[]> =>
      (await log.read("s", { after, limit: 9, ordinal })).map(({ sequence }) => sequence);
    assert.deepEqual(await read(1), [2, 3]);
    await log.moved("s", 3, { signal, ordinal });
    assert.deepEqual(await read(3), []);
    assert.equal(log.peek("s", { after: 1, limit: 9, ordinal }), undefined);

    readers[0]?.();
    readers[0]?.();
    assert.deepEqual(await read(1), [2, 3]);
    const [retired] = await log.retired();
    assert.equal(await log.find(retired?.id ?? ""), undefined);
    readers[1]?.();
    assert.deepEqual(await log.retired(), []);
    await failsWith("session_not_found", read(1));
    assert.equal((await log.find("s"))?.head, 5);
  });

  suite.it("rejects waiting readers when it closes", async ({ log }) => {
    await createSession(log, "s");
    const { signal } = new AbortController();
    const wait = failsWith("draining", log.moved("s", 0, { signal }));
    await new Promise((resolve) => setImmediate(resolve));
    await log.close();
    await wait;
    await failsWith("draining", log.read("s", { after: 0, limit: 1 }));
    assert.equal(getEventListeners(signal, "abort").length, 0);
  });
}
