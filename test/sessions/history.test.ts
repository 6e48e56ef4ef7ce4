import { join } from "node:path";
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { EventDraft, SluiceEvent } from "../../src/contract/index.ts";
import { createSqliteLog, type EventLog } from "../../src/log/index.ts";
import { toSessionInfo, toWaitingInput } from "../../src/sessions/fold/info.ts";
import { applyEvent, emptyFold } from "../../src/sessions/fold/session-fold.ts";
import { createDriver } from "../../src/sqlite/driver.ts";
import {
  openEngine,
  readAll,
  runTurn,
  say,
  script,
  SCRIPTED,
  waitFor,
  type TestEngine,
} from "../support/engine.ts";

const TURNS = 12;

describe("the history of a session", () => {
  let test: TestEngine;
  let reads: { events: number; turns: number };
  let events: SluiceEvent[];

  beforeAll(async () => {
    test = await openEngine();
    await test.engine.create("s", SCRIPTED);
    for (let turn = 1; turn <= TURNS; turn++)
      await runTurn(
        test,
        "s",
        script({ say: `turn ${turn}`, chunks: 20 }, { shell: turn === 3 ? "false" : "true" }),
      );
    await runTurn(test, "s", script({ plan: [{ content: "a", status: "pending", priority: "low" }] }));
    await test.engine.checkpoint("s");
    const asking = await say(test.engine, "s", script({ ask: { shell: "true" } }));
    const { data } = await waitFor(test.log, "s", "permission.requested");
    await say(test.engine, "s", "waits");
    await test.engine.resolvePermission("s", data.permission_id, { reply: "once" });
    await waitFor(test.log, "s", "turn.ended", { where: (event) => event.data.turn_id === asking.turnId });
    await waitFor(test.log, "s", "turn.ended", {
      after: (
        await waitFor(test.log, "s", "turn.ended", { where: ({ data }) => data.turn_id === asking.turnId })
      ).sequence,
    });
    const log = createSqliteLog({ folder: test.folder });
    reads = { events: 0, turns: 0 };
    await log.close();
    await test.restart({ log: countReads(createSqliteLog({ folder: test.folder }), reads) });
    events = await readAll(test.log, "s");
  });
  afterAll(() => test.close());

  it("has an outline of all turns, with counts and marks", async () => {
    const { turns, head, next } = await test.engine.outline("s", { limit: 100 });
    const started = events.filter(({ type }) => type === "turn.started");
    const ended = events.filter((event) => event.type === "turn.ended");
    expect(next).toBeUndefined();
    expect(head).toBe(events.length);
    expect(turns.map(({ number }) => number)).toEqual(started.map((_, index) => index + 1));
    expect(turns.map(({ first, last }) => [first, last])).toEqual(
      started.map(({ sequence }, index) => [sequence, ended[index]?.sequence]),
    );
    expect(turns[2]).toMatchObject({ status: "completed", calls: 1, errors: 1 });
    expect(turns[0]?.prompt).toMatch(/^#script/);
    const asked = turns[TURNS + 1];
    expect(asked?.asks).toBe(1);
    expect(asked?.marks.map(({ kind }) => kind)).toEqual(["checkpoint", "ask"]);
    for (const { marks } of turns)
      for (const { sequence, kind } of marks)
        expect(events[sequence - 1]?.type).toMatch(
          { ask: /requested$/, checkpoint: /^checkpoint/ }[kind as "ask"] ?? /./,
        );
  });

  it("pages through the turns, each once", async () => {
    const all = (await test.engine.outline("s", { limit: 100 })).turns;
    const paged: typeof all = [];
    let cursor: string | undefined;
    do {
      const page = await test.engine.outline("s", { limit: 5, cursor });
      paged.unshift(...page.turns);
      cursor = page.next;
    } while (cursor !== undefined);
    expect(paged).toEqual(all);
  });

  it("reads no event for the outline of ended turns, and one row for each turn", async () => {
    Object.assign(reads, { events: 0, turns: 0 });
    const { turns } = await test.engine.outline("s", { limit: 100 });
    // Events after the last turn's end: nothing of the turns themselves.
    const after = events.length - (turns.at(-1)?.last ?? 0);
    expect(reads.events).toBeLessThanOrEqual(after);
    expect(reads.turns).toBe(turns.length);
  });

  it("is at any event the fold of the events up to it, and reads one turn", async () => {
    const row = await test.log.find("s");
    const { turns } = await test.engine.outline("s", { limit: 100 });
    const longest = Math.max(...turns.map(({ last }, index) => last - (turns[index - 1]?.last ?? 0)));
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: events.length }), async (at) => {
        Object.assign(reads, { events: 0, turns: 0 });
        const found = await test.engine.at("s", at);
        // One more event is read for its time.
        expect(reads.events).toBeLessThanOrEqual(longest + 1);
        const fold = emptyFold();
        for (const event of structuredClone(events.slice(0, at)))
          applyEvent(fold, event as EventDraft, event.sequence, Date.parse(event.time));
        if (!row) throw new Error("no row");
        const last = events[at - 1];
        const updatedAt = last ? Date.parse(last.time) : row.createdAt;
        expect(found).toEqual({
          ...toSessionInfo({ ...row, updatedAt }, fold),
          at,
          plan: fold.plan ?? [],
          inputs: fold.inbox.map(toWaitingInput),
          turns: fold.tally?.turns ?? 0,
          checkpoint: fold.checkpoint,
        });
      }),
      { numRuns: 60 },
    );
  });

  it("refuses a moment that the log does not have", async () => {
    await expect(test.engine.at("s", events.length + 1)).rejects.toMatchObject({ code: "cursor_gone" });
  });

  it("answers for a log of an older version, and stores what it found", async () => {
    const before = {
      outline: await test.engine.outline("s", { limit: 100 }),
      at: await test.engine.at("s", Math.floor(events.length / 2)),
    };
    await test.restart({ log: createSqliteLog({ folder: test.folder }) });
    await test.engine.close();
    await test.log.close();
    const driver = createDriver(join(test.folder, "log.db"));
    driver.exec(`
      DELETE FROM turns; DELETE FROM folds;
      UPDATE states SET state = json_remove(state, '$.tally', '$.plan', '$.words', '$.left', '$.queueChanged')
      WHERE kind = 'snapshot'`);
    driver.close();
    await test.restart({ log: countReads(createSqliteLog({ folder: test.folder }), reads) }).catch(() => {});
    Object.assign(reads, { events: 0, turns: 0 });
    expect(await test.engine.outline("s", { limit: 100 })).toEqual(before.outline);
    expect(reads.events).toBeGreaterThan(events.length - 10);
    Object.assign(reads, { events: 0, turns: 0 });
    expect(await test.engine.outline("s", { limit: 100 })).toEqual(before.outline);
    expect(await test.engine.at("s", Math.floor(events.length / 2))).toEqual(before.at);
    expect(reads.events).toBeLessThan(events.length / 2);
    // A session whose writer began with such a snapshot has its later turns, too.
    await runTurn(test, "s", script({ say: "later" }));
    const { turns } = await test.engine.outline("s", { limit: 100 });
    expect(turns.length).toBe(before.outline.turns.length + 1);
    expect(turns.at(-1)?.number).toBe(turns.length);
  });
});

/** The real log, which counts the events and turns that it gives. */
function countReads(log: EventLog, reads: { events: number; turns: number }): EventLog {
  const turns: EventLog["turns"] = {
    ...log.turns,
    async list(ordinal, page) {
      const found = await log.turns.list(ordinal, page);
      reads.turns += found.length;
      return found;
    },
  };
  return new Proxy(log, {
    get(target, name) {
      if (name === "turns") return turns;
      if (name === "read")
        return async (...given: Parameters<EventLog["read"]>) => {
          const found = await target.read(...given);
          reads.events += found.length;
          return found;
        };
      const value: unknown = Reflect.get(target, name);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}
