import { describe, expect, it } from "vitest";
import type { EventDraft } from "../../src/contract/index.ts";
import { EVENT_DATA } from "../../src/contract/event-data.ts";
import { createPricing } from "../../src/gateway/pricing.ts";
import type { GatewayRecord } from "../../src/gateway/record.ts";
import { Drafts } from "../../src/sessions/fold/drafts.ts";
import { applyEvent, emptyFold, type SessionFold } from "../../src/sessions/fold/session-fold.ts";
import { endProcess } from "../../src/sessions/process/ending.ts";
import { closeTurn } from "../../src/sessions/turn/turn-end.ts";
import { toEvents } from "../../src/sessions/process/model-records.ts";

const pricing = createPricing({ m: { input: 1, output: 10 } }, undefined);
const started = (id: string): GatewayRecord => ({
  type: "started",
  id,
  time: 1,
  wire: "chat",
  provider: "openai",
  model: "m",
  kind: "turn",
  attempt: 1,
});
const ended = (id: string): Extract<GatewayRecord, { type: "ended" }> => ({
  type: "ended",
  id,
  time: 5,
  wire: "chat",
  provider: "openai",
  model: "m",
  ms: 40,
  ttft: 3,
  status: 200,
  usage: { input_tokens: 1_000_000, output_tokens: 100_000 },
  in: 10,
  out: 20,
  served: "provider",
  rate: { remaining: 4, reset: Date.parse("2026-11-18T00:00:00Z") },
});

const parentOf = (agent: string) => (agent === "sub" ? "itm_1" : undefined);

/** Applies records as the intake does, and returns the events. */
function apply(fold: SessionFold, records: readonly GatewayRecord[]): EventDraft[] {
  return records.flatMap((record, at) => {
    const events = toEvents(fold, record, { offset: (at + 1) * 100, pricing });
    for (const event of events) applyEvent(fold, event, fold.head + 1, at);
    return events;
  });
}

describe("the gateway's records", () => {
  it("become events of the contract, with usage, cost and the offset", () => {
    const fold = emptyFold();
    const events = apply(fold, [started("a"), { type: "first", id: "a", time: 2, ms: 3 }, ended("a")]);
    for (const { type, data } of events) EVENT_DATA[type].parse(data);
    expect(events.map(({ type }) => type)).toEqual(["model.started", "model.first", "model.ended"]);
    expect(events[2]?.data).toMatchObject({
      usage: { input_tokens: 1_000_000, cost_usd: 2 },
      usage_source: "measured",
      price: { table: "own" },
      rate: { remaining: 4, reset: "2026-11-18T00:00:00.000Z" },
      offset: 300,
    });
    expect(fold).toMatchObject({
      recorded: 300,
      requests: {},
      usage: { output_tokens: 100_000, cost_usd: 2 },
    });
  });

  it("10: carry the item of the call that started a sub-agent, however its id is told", () => {
    const of = (record: GatewayRecord, fold = emptyFold()) => {
      const events = toEvents(fold, record, { offset: 100, pricing, parentOf });
      for (const event of events) applyEvent(fold, event, fold.head + 1, 0);
      return { event: events[0], fold };
    };
    const agent = of({ ...started("a"), agent: "sub" } as GatewayRecord);
    expect(agent.event).toMatchObject({ parent_id: "itm_1", data: { agent_id: "sub" } });
    const end = of({ ...ended("a"), agent: "sub" } as GatewayRecord, agent.fold);
    expect(end.event).toMatchObject({ type: "model.ended", parent_id: "itm_1" });
    const session = of({ ...started("b"), session: "sub" } as GatewayRecord);
    expect(session.event).toMatchObject({ parent_id: "itm_1", data: { agent_id: "sub" } });
    // The main agent has a session, too.
    const main = of({ ...started("c"), session: "main" } as GatewayRecord);
    expect(main.event).not.toHaveProperty("parent_id");
    expect(main.event?.data).not.toHaveProperty("agent_id");
    // An agent that the CLI has not told of yet.
    const early = of({ ...started("d"), agent: "unheard" } as GatewayRecord);
    expect(early.event).not.toHaveProperty("parent_id");
    expect(early.event?.data).toMatchObject({ agent_id: "unheard" });
  });

  it("11: have the price of the model that was asked for, where the answer names another one without a price", () => {
    const answered = { ...ended("a"), model: "a-deployment" } as const;
    const prices = [{ ...answered, asked: "m" }, answered].map((record) => {
      const fold = emptyFold();
      return apply(fold, [started("a"), record]).at(-1)?.data;
    });
    expect(prices).toMatchObject([
      { model: "a-deployment", usage: { cost_usd: 2 }, price: { table: "own" } },
      { model: "a-deployment", price: { table: "unknown" } },
    ]);
    expect(prices[1]).not.toHaveProperty("usage.cost_usd");
  });

  it("do no harm with a time that no calendar has", () => {
    const fold = emptyFold();
    const events = apply(fold, [
      started("a"),
      { type: "limited", id: "a", time: 3, until: 1e23 },
      { ...ended("a"), rate: { remaining: 4, reset: 1e23 } },
    ]);
    for (const { type, data } of events) EVENT_DATA[type].parse(data);
    expect(events.at(-1)?.data).toMatchObject({ rate: { remaining: 4 } });
  });

  it("give one end to a request, also when its gateway is gone or speaks twice", () => {
    const fold = emptyFold();
    const boot: GatewayRecord = { type: "boot", time: 3 };
    const events = apply(fold, [started("a"), boot, ended("a"), ended("never-started"), boot]);
    expect(events.map(({ type }) => type)).toEqual(["model.started", "model.ended"]);
    expect(events[1]?.data).toMatchObject({ request_id: "a", error: { code: "cut" } });
  });

  it("count in the turn in which a request began, and in no other", () => {
    const fold = emptyFold();
    const turn = (id: string): void => {
      const input = { input_id: id, turn_id: id, via: "test", content: [] };
      applyEvent(fold, { type: "input.accepted", source: "daemon", data: input }, fold.head + 1, 0);
      const data = { turn_id: id, input_ids: [id] };
      applyEvent(fold, { type: "turn.started", source: "daemon", data }, fold.head + 1, 0);
    };
    turn("one");
    apply(fold, [started("title")]);
    const data = { turn_id: "one", status: "completed", stop_reason: "end_turn" } as const;
    applyEvent(fold, { type: "turn.ended", source: "daemon", data }, fold.head + 1, 0);
    turn("two");
    apply(fold, [ended("title")]);
    expect(fold.turn?.usage).toEqual({});
    expect(fold.usage.output_tokens).toBe(100_000);
  });

  it("leave no request open behind the agent's process", () => {
    for (const stop of [undefined, "terminate", "interrupt", "idle"] as const) {
      const fold = emptyFold();
      const drafts = new Drafts(fold, 0);
      drafts.addAll(toEvents(fold, started("a"), { offset: 100, pricing }));
      endProcess(fold, drafts, { process: 1, reason: "exited", exit_code: 0 }, stop);
      expect(drafts.events.map(({ type }) => type)).toEqual([
        "model.started",
        "model.ended",
        "process.ended",
      ]);
      expect(drafts.events[1]?.data).toMatchObject({ request_id: "a", error: { code: "cut" } });
      expect(fold).toMatchObject({ recorded: 100, requests: {} });
      // The gateway's own word comes too late.
      expect(toEvents(fold, ended("a"), { offset: 200, pricing })).toEqual([]);
    }
  });

  it("leave no request open that an agent without a gateway began outside of a turn", () => {
    const fold = emptyFold();
    const drafts = new Drafts(fold, 0);
    drafts.add({ type: "model.started", source: "agent", data: { request_id: "late" } });
    endProcess(fold, drafts, { process: 1, reason: "exited", exit_code: 0 }, "idle");
    expect(drafts.events.map(({ type }) => type)).toEqual(["model.started", "model.ended", "process.ended"]);
    drafts.add({ type: "model.started", source: "agent", data: { request_id: "again" } });
    const input = { input_id: "i", turn_id: "t", via: "test", content: [] };
    drafts.add({ type: "input.accepted", source: "daemon", data: input });
    drafts.add({ type: "turn.started", source: "daemon", data: { turn_id: "t", input_ids: ["i"] } });
    drafts.addAll(closeTurn(fold, { status: "completed", stopReason: "end_turn" }));
    expect(drafts.events.slice(-2)).toMatchObject([
      { type: "model.ended", data: { request_id: "again" } },
      { type: "turn.ended" },
    ]);
  });

  it("tell of refusals once", () => {
    const fold = emptyFold();
    const events = apply(fold, [{ type: "refused", time: 1, status: 403, why: "path" }]);
    expect(events).toMatchObject([{ type: "error", data: { code: "gateway_refused" } }]);
    expect(fold.recorded).toBe(100);
  });
});
