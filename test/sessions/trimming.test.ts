import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { EventDraft, EventOf, SluiceEvent } from "../../src/contract/index.ts";
import { createMemoryLog, type EventLog } from "../../src/log/index.ts";
import { applyEvent, emptyFold, type SessionFold } from "../../src/sessions/fold/session-fold.ts";
import { startTurn } from "../../src/sessions/turn/turn-start.ts";
import { trimSession } from "../../src/sessions/upkeep/retention.ts";
import { SessionWriter } from "../../src/sessions/fold/writer.ts";
import {
  ofType,
  openEngine,
  runTurn,
  say,
  script,
  SCRIPTED,
  type TestEngine,
  waitFor,
} from "../support/engine.ts";

/** The content of one batch. */
type Step = "accept" | "start" | "speak" | "change" | "ask" | "end" | "process";

const STEPS: readonly Step[] = ["accept", "start", "speak", "change", "ask", "end", "process"];
const deps = (log: EventLog) => ({ log, owner: "us", count: () => {} });
const daemon = (event: Pick<EventDraft, "type" | "data">): EventDraft =>
  ({ source: "daemon", ...event }) as EventDraft;

/** One more batch, where the session is in a state for it. */
async function take(writer: SessionWriter, step: Step): Promise<void> {
  const { fold } = writer;
  const drafts = writer.drafts();
  const n = fold.head + 1;
  if (step === "accept") {
    const content = [{ type: "text", text: `word ${n}` } as const];
    drafts.add(
      daemon({
        type: "input.accepted",
        data: { input_id: `inp_${n}`, turn_id: `turn_${n}`, content, via: "test" },
      }),
    );
  }
  if (step === "start" && !fold.turn) startTurn(fold, drafts);
  if (step === "change") drafts.add(daemon({ type: "session.updated", data: { title: `title ${n}` } }));
  if (step === "process")
    drafts.add(daemon({ type: "process.started", data: { process: n, harness: "scripted" } }));
  if (step === "speak" && fold.turn) {
    const item = { item_id: `itm_${n}`, kind: "message", role: "assistant" } as const;
    drafts.add({
      type: "item.started",
      source: "agent",
      data: { item: { ...item, status: "in_progress", content: [] } },
    });
    const from = { source: "agent", parentId: undefined, raw: undefined } as const;
    for (const delta of ["a", "b"]) drafts.addDelta({ item_id: item.item_id, delta }, from);
  }
  if (step === "ask" && fold.turn)
    drafts.add(
      daemon({
        type: "permission.requested",
        data: { permission_id: `p${n}`, action: "x", status: "requested" },
      }),
    );
  if (step === "end" && fold.turn)
    drafts.add(
      daemon({
        type: "turn.ended",
        data: { turn_id: fold.turn.id, status: "completed", stop_reason: "end_turn" },
      }),
    );
  await writer.commit(drafts, {});
}

function foldOf(events: readonly SluiceEvent[]): SessionFold {
  const fold = emptyFold();
  for (const event of events) applyEvent(fold, event as EventDraft, event.sequence, Date.parse(event.time));
  return fold;
}

it("a session opens with the fold of its whole log, wherever it was trimmed", async () => {
  const point = fc.nat({ max: 60 });
  const steps = fc.array(fc.constantFrom(...STEPS), { maxLength: 25 });
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(steps, point), { minLength: 1, maxLength: 3 }), async (lives) => {
      const log = createMemoryLog();
      const row = await log.create({ id: "s", time: 1_000, spec: SCRIPTED, owner: "us" });
      const whole: SluiceEvent[] = [];
      for (const [taken, through] of lives) {
        const writer = await SessionWriter.claim(deps(log), (await log.find("s")) ?? row);
        expect(writer.fold).toEqual(foldOf(whole));
        for (const step of taken) await take(writer, step);
        const stored = await log.read("s", { after: whole.length, limit: 1000 });
        whole.push(...stored.map(({ body }) => JSON.parse(body) as SluiceEvent));
        const found = (await log.find("s")) ?? row;
        await trimSession(log, found, through);
        expect((await log.find("s"))?.floor).toBeLessThanOrEqual(Math.max(through, found.floor));
      }
      const reopened = await SessionWriter.claim(deps(log), (await log.find("s")) ?? row);
      expect(reopened.fold).toEqual(foldOf(whole));
    }),
    { numRuns: 300 },
  );
});

describe("a session whose events were trimmed away without a snapshot of them", () => {
  let test: TestEngine;
  beforeAll(async () => {
    test = await openEngine({ defaultSandbox: "local" });
  });
  afterAll(() => test.close());

  it.each([
    ["a damaged one", "damaged"],
    ["one of an earlier time", "early"],
  ])("%s is left: says it once, and goes on", async (_, id) => {
    const { engine, log } = test;
    await engine.create(id, { ...SCRIPTED, title: "kept" });
    await runTurn(test, id, script({ say: "one" }));
    if (id === "early") {
      await say(engine, id, script({ question: { prompt: "go on?", options: ["yes", "no"] } }));
      await waitFor(log, id, "turn.waiting");
    }
    await engine.close();
    const { epoch = 0, head = 0 } = (await log.find(id)) ?? {};
    if (id === "damaged") await log.append(id, { epoch, time: Date.now(), events: [], snapshot: null });
    await log.trim(id, head - 1);
    await test.restart();

    for (const word of ["two", "three"]) {
      const { turnId, after } = await say(test.engine, id, script({ say: word }));
      const where = (event: EventOf<"turn.ended">): boolean => event.data.turn_id === turnId;
      const ended = await waitFor(test.log, id, "turn.ended", { after, where });
      expect(ended.data.status, JSON.stringify(ended.data.error)).toBe("completed");
      expect(await test.engine.info(id)).toMatchObject({ title: "kept", status: "idle", oldest: head });
      await test.restart();
    }
    const rest = await test.log.read(id, { after: head - 1, limit: 1000 });
    const events = rest.map(({ body }) => JSON.parse(body) as SluiceEvent);
    const told = ofType(events, "error").filter(({ data }) => data.message?.includes("trimmed away"));
    expect(told).toHaveLength(1);
    expect(ofType(events, "session.started")).toEqual([]);
    // Process numbers are folder names: none is used twice.
    expect(ofType(events, "process.started").every(({ data }) => data.process > 1)).toBe(true);
  });
});
