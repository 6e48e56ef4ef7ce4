import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { EventOf, SluiceEvent } from "../../src/contract/index.ts";
import { createScriptedModel, type ScriptedModel } from "../../src/model/index.ts";
import { requireAgent } from "../support/agents.ts";
import { script } from "../support/engine.ts";
import { assistantTexts, expectLawful } from "../support/laws.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { findGateways } from "./gateways.ts";

const { reason } = requireAgent("claude");

describe.skipIf(reason !== undefined)("a streamed answer of a led agent", { timeout: 120_000 }, () => {
  let server: TestServer;
  let model: ScriptedModel;
  beforeAll(async () => {
    model = await createScriptedModel();
    const env = { ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: "sk-ant-any-key-will-do" };
    server = await startServer({ env });
  });
  afterAll(async () => {
    await server.close();
    await model.close();
  });

  /** Runs a turn, and does something once when the answer's first words are there. */
  async function runTurn(name: string, act: (id: string) => unknown): Promise<SluiceEvent[]> {
    const id = `${name}-${randomBytes(4).toString("hex")}`;
    await server.client.sessions.create(id, {
      agent: "claude",
      model: "claude-sonnet-4-5",
      permissionMode: "bypass",
    });
    const steps = [
      { say: "the first half " },
      { sleep: 3_000 },
      { say: "the second half" },
      { usage: { input_tokens: 321, output_tokens: 123 } },
    ];
    await server.client.sendMessage(id, script(...steps));
    const events: SluiceEvent[] = [];
    let acted: Promise<unknown> | undefined;
    for await (const event of server.client.subscribe(id, { extensions: true })) {
      events.push(event);
      if (event.type === "item.delta") acted ??= Promise.resolve(act(id));
      if (event.type === "turn.ended") break;
    }
    await acted;
    expect(acted, "the answer was streamed").toBeDefined();
    expectLawful(events);
    return events;
  }

  it("survives kill -9 of the server: one stream, one span, all tokens", async () => {
    const asked = model.requests.length;
    const events = await runTurn("killed", async () => {
      await server.kill();
      await server.start();
    });
    expect(events.at(-1)).toMatchObject({ type: "turn.ended", data: { status: "completed" } });
    expect(assistantTexts(events).join("")).toContain("second half");
    const turn = find(events, "model.started").find(({ data }) => data.kind === "turn");
    expect(model.requests.length - asked).toBe(find(events, "model.started").length);
    const ends = find(events, "model.ended").filter(({ data }) => data.request_id === turn?.data.request_id);
    expect(ends).toHaveLength(1);
    expect(ends[0]?.data).toMatchObject({
      usage: { input_tokens: 321, output_tokens: 123 },
      usage_source: "measured",
    });
  });

  it("is cut by kill -9 of the gateway; the agent's retry works, and both are spans", async () => {
    const events = await runTurn("cut", () => {
      for (const pid of findGateways(server.data)) process.kill(pid, "SIGKILL");
    });
    expect(events.at(-1)).toMatchObject({ type: "turn.ended", data: { status: "completed" } });
    const ends = find(events, "model.ended");
    expect(ends.some(({ data }) => data.error?.code === "cut")).toBe(true);
    expect(ends.at(-1)?.data).toMatchObject({ usage: { output_tokens: 123 } });
    expect(ends.length).toBe(find(events, "model.started").length);
  });

  it("that an interrupt breaks off ends in its turn", async () => {
    const events = await runTurn("interrupted", (id) => server.client.interrupt(id));
    expect(events.at(-1)).toMatchObject({ type: "turn.ended", data: { status: "interrupted" } });
    expectAllEnded(events);
  });

  it("that ends with its agent is told before the end of the turn", async () => {
    const events = await runTurn("ended", (id) => server.client.terminate(id));
    expect(events.at(-1)).toMatchObject({ type: "turn.ended", data: { stop_reason: "terminated" } });
    expectAllEnded(events);
  });
});

function expectAllEnded(events: readonly SluiceEvent[]): void {
  const ends = find(events, "model.ended").map(({ data }) => data.request_id);
  const starts = find(events, "model.started").map(({ data }) => data.request_id);
  expect(starts.length).toBeGreaterThan(0);
  expect(ends.toSorted()).toEqual(starts.toSorted());
}

function find<T extends SluiceEvent["type"]>(events: readonly SluiceEvent[], type: T): EventOf<T>[] {
  return events.filter((event): event is EventOf<T> => event.type === type);
}
