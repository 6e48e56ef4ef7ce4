import assert from "node:assert/strict";
import type { EventDraft } from "../../contract/index.ts";
import { append, createSession, failsWith, isGapless, readAll, toDeltas } from "./suite.ts";
import type { Suite } from "./suite.ts";

export function reading(suite: Suite): void {
  suite.it("gives the same log to readers that stop and resume anywhere", async ({ log }) => {
    await createSession(log, "s");
    const random = createRandom(42);
    for (let total = 0; total < 6000;) {
      const size = 1 + Math.floor(random() ** 4 * 1500);
      await append(log, "s", toDeltas(size, { from: total, raw: total % 3 === 0 }));
      total += size;
    }
    const uncut = await readAll(log, "s", { limit: 100_000 });
    for (let round = 0; round < 30; round++) {
      const pages: typeof uncut = [];
      while (pages.length < uncut.length) {
        const limit = 1 + Math.floor(random() * 700);
        const page = await log.read("s", { after: pages.length, limit });
        assert.ok(page.length > 0 && page.length <= limit);
        pages.push(...page);
      }
      assert.deepEqual(pages, uncut);
    }
  });

  suite.it("filters by type, old and new", async ({ log }) => {
    await createSession(log, "s");
    for (let n = 0; n < 5; n++) await append(log, "s", [...toDeltas(1200), toTurnEnd(n), ...toDeltas(3)]);
    const types = new Set(["turn.ended"] as const);
    const all = await log.read("s", { after: 0, limit: 100, types });
    assert.deepEqual(
      all.map((event) => event.sequence),
      [1201, 2405, 3609, 4813, 6017],
    );
    assert.deepEqual(await log.read("s", { after: 1201, limit: 2, types }), all.slice(1, 3));
    assert.deepEqual(await log.read("s", { after: 6017, limit: 2, types }), []);
    assert.deepEqual(await log.read("s", { after: 6019, limit: 2, types }), []);
    assert.deepEqual(await log.read("s", { after: 0, limit: 9, types: new Set(["error"] as const) }), []);
  });

  suite.it("gives native lines on request, and shares them among the events of one line", async ({ log }) => {
    await createSession(log, "s");
    const raws = [
      '{"a":1}',
      '{"a":1}',
      undefined,
      '{"a":1}',
      '"="',
      "=",
      "@abc",
      "!x",
      "",
      "two\nlines",
      "nul\0",
      "\ud800",
      '{"ü":"\u2028😀"}',
    ];
    const drafts = raws.map((raw, index) => ({
      ...toDeltas(1, { from: index })[0],
      ...(raw !== undefined && { raw }),
    }));
    await append(log, "s", drafts as EventDraft[]);
    const check = async (): Promise<void> => {
      const asked = await log.read("s", { after: 0, limit: raws.length, raw: true });
      assert.deepEqual(
        asked.map((event) => event.raw),
        raws,
      );
      assert.deepEqual((await log.read("s", { after: 1, limit: 1, raw: true }))[0]?.raw, raws[1]);
      assert.deepEqual((await log.read("s", { after: 3, limit: 1, raw: true }))[0]?.raw, raws[3]);
      const plain = await log.read("s", { after: 0, limit: raws.length });
      assert.ok(plain.every((event) => !("raw" in event)));
      assert.deepEqual(
        plain.map((event) => event.body),
        asked.map((event) => event.body),
      );
    };
    await check();
    // Enough to push them out of memory.
    await append(log, "s", toDeltas(5000));
    await check();
  });

  suite.it("gives large texts back whole", async ({ log }) => {
    await createSession(log, "s");
    const big = 'line "one"\n\\ ü \u2028 '.repeat(20_000);
    const broken = `\ud800${"x".repeat(40_000)}`;
    const details = {
      big,
      [`key ${big}`]: [big, "small", broken],
      wide: "語".repeat(11_000),
      at: `@0:${"a".repeat(64)} `,
    };
    const drafts: EventDraft[] = [
      { type: "item.delta", source: "agent", data: { item_id: "i", delta: big }, raw: JSON.stringify(big) },
      { type: "error", source: "daemon", data: { message: "m", details } },
      ...toDeltas(3),
      {
        type: "item.delta",
        source: "agent",
        data: { item_id: "i", delta: broken },
        raw: JSON.stringify(big),
      },
    ];
    await append(log, "s", drafts);
    const live = await readAll(log, "s");
    const check = async (): Promise<void> => {
      const stored = await readAll(log, "s", { limit: 3, raw: true });
      for (const [index, draft] of drafts.entries()) {
        assert.equal(stored[index]?.body, live[index]?.body);
        assert.deepEqual(JSON.parse(stored[index]?.body ?? "").data, draft.data);
        assert.equal(stored[index]?.raw, draft.raw);
      }
    };
    await check();
    await append(log, "s", toDeltas(5000));
    await check();
  });

  suite.it("bounds a page by its size, but gives at least one event", async ({ log }) => {
    await createSession(log, "s");
    for (let n = 0; n < 4; n++) {
      const delta = `${n}`.repeat(5 * 1024 * 1024);
      await append(log, "s", [{ type: "item.delta", source: "agent", data: { item_id: "i", delta } }]);
    }
    assert.equal((await log.read("s", { after: 0, limit: 100 })).length, 1);
    const events = await readAll(log, "s");
    isGapless(events, 1);
    assert.equal(events.length, 4);
  });

  suite.it("names the oldest readable event when a cursor cannot be served", async ({ log }) => {
    await createSession(log, "s");
    assert.deepEqual(await log.read("s", { after: 0, limit: 10 }), []);
    const early = await failsWith("cursor_gone", log.read("s", { after: 1, limit: 10 }));
    assert.deepEqual([early.facts.oldest, early.facts.head], [1, 0]);
    await append(log, "s", toDeltas(10));
    assert.deepEqual(await log.read("s", { after: 10, limit: 10 }), []);
    const ahead = await failsWith("cursor_gone", log.read("s", { after: 11, limit: 10 }));
    assert.deepEqual([ahead.facts.oldest, ahead.facts.head], [1, 10]);
    for (const after of [-1, 0.5, Number.NaN])
      await failsWith("invalid_cursor", log.read("s", { after, limit: 1 }));
  });

  suite.it("forgets trimmed events, and says so", async ({ log }) => {
    await createSession(log, "s");
    for (let n = 0; n < 10; n++) await append(log, "s", toDeltas(10));
    await log.trim("s", 25);
    const gone = await failsWith("cursor_gone", log.read("s", { after: 24, limit: 10 }));
    assert.deepEqual([gone.facts.oldest, gone.facts.head], [26, 100]);
    const rest = await readAll(log, "s", { after: 25 });
    isGapless(rest, 26);
    assert.equal(rest.length, 75);
    await log.trim("s", 5);
    assert.equal((await log.find("s"))?.floor, 25);
    await log.trim("s", 1000);
    assert.equal((await log.find("s"))?.floor, 100);
    assert.deepEqual(await log.read("s", { after: 100, limit: 10 }), []);
    assert.equal((await append(log, "s", toDeltas(1))).first, 101);
  });
}

/** The same numbers each time, so that a failure can be reproduced. */
function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

function toTurnEnd(n: number): EventDraft {
  const data = { turn_id: `turn_${n}`, status: "completed", stop_reason: "end_turn" } as const;
  return { type: "turn.ended", source: "daemon", data };
}
