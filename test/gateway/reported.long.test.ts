import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { EventOf, SessionSpec, SluiceEvent, Usage } from "../../src/contract/index.ts";
import { createScriptedModel, type ScriptedModel } from "../../src/model/index.ts";
import { script } from "../support/engine.ts";
import { assistantTexts, expectLawful } from "../support/laws.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { LED_AGENTS, toServerEnv } from "./led-table.ts";

const USAGE = { input_tokens: 321, output_tokens: 123, cache_read_tokens: 30, reasoning_tokens: 9 };
const STEPS = script(
  { say: "the first half " },
  { sleep: 2_000 },
  { say: "the second half" },
  { usage: USAGE },
);
const KINDS = ["input_tokens", "output_tokens", "cache_read_tokens"] as const;

const AGENTS = LED_AGENTS.filter(({ agent }) => agent !== "opencode");

describe.each(AGENTS)("$agent", { timeout: 240_000 }, ({ agent, model: name, reason }) => {
  let server: TestServer;
  let model: ScriptedModel;
  beforeAll(async () => {
    if (reason !== undefined) return;
    model = await createScriptedModel();
    server = await startServer({ env: toServerEnv(model) });
  });
  afterAll(async () => {
    await server?.close();
    await model?.close();
  });

  async function run(
    id: string,
    more: Partial<SessionSpec>,
    onText: () => Promise<void> = async () => {},
  ): Promise<SluiceEvent[]> {
    const named = name === undefined ? {} : { model: name };
    await server.client.sessions.create(id, { agent, ...named, permissionMode: "bypass", ...more });
    await server.client.sendMessage(id, STEPS);
    const events: SluiceEvent[] = [];
    let acted: Promise<void> | undefined;
    for await (const event of server.client.subscribe(id, { extensions: true })) {
      events.push(event);
      if (event.type === "item.delta") acted ??= onText();
      if (event.type === "turn.ended") break;
    }
    await acted;
    expect(acted, "the answer was streamed").toBeDefined();
    expectLawful(events);
    return events;
  }

  it.skipIf(reason !== undefined)(
    "4, 8, 9: is measured over a kill -9 of the server as it reports itself, and its titles are marked",
    async () => {
      // The CLI's own reports, as no gateway is there.
      const reported = await run(`own-${Date.now()}`, { network: "full" });
      expect(find(reported, "process.started")[0]?.data).toMatchObject({ credential: "inside" });
      const asked = model.requests.length;
      const led = await run(`led-${Date.now()}`, {}, async () => {
        await server.kill();
        await server.start();
      });
      expect(find(led, "process.started")[0]?.data).toMatchObject({ credential: "outside" });
      expect(find(led, "turn.ended")[0]?.data).toMatchObject({ status: "completed" });
      expect(
        assistantTexts(led)
          .join("")
          .match(/the second half/g),
      ).toHaveLength(1);
      // Every request is a span, once, also those that the CLI does not tell.
      const [starts, ends] = [find(led, "model.started"), find(led, "model.ended")];
      // Grok Build lists models, too, which is no model request.
      if (agent === "grok") expect(starts.length).toBeLessThanOrEqual(model.requests.length - asked);
      else expect(starts.length).toBe(model.requests.length - asked);
      expect(ends.map(({ data }) => data.request_id).toSorted()).toEqual(
        starts.map(({ data }) => data.request_id).toSorted(),
      );
      const sideCalls = starts.filter(({ data }) => data.kind !== "turn").map(({ data }) => data.request_id);
      if (agent === "grok") expect(sideCalls.length).toBeGreaterThan(0);
      const turns = ends.filter(({ data }) => !sideCalls.includes(data.request_id));
      expect(turns).toHaveLength(1);
      expect(turns[0]?.data).toMatchObject({ usage: USAGE, usage_source: "measured" });
      expect(pick(turns[0]?.data.usage)).toEqual(pick(find(reported, "turn.ended")[0]?.data.usage));
    },
  );
});

function pick(usage: Usage | undefined): (number | undefined)[] {
  return KINDS.map((kind) => usage?.[kind]);
}

function find<T extends SluiceEvent["type"]>(events: readonly SluiceEvent[], type: T): EventOf<T>[] {
  return events.filter((event): event is EventOf<T> => event.type === type);
}
