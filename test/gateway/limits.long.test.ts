import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { EventOf, SessionSpec, SluiceEvent } from "../../src/contract/index.ts";
import { createScriptedModel, type ScriptedModel } from "../../src/model/index.ts";
import { script } from "../support/engine.ts";
import { assistantTexts, expectLawful } from "../support/laws.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { LED_AGENTS, toServerEnv } from "./led-table.ts";

describe.each(LED_AGENTS)("a led $agent", { timeout: 180_000 }, ({ agent, model: name, reason }) => {
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
    steps: unknown[],
    act: (event: SluiceEvent) => unknown = () => {},
  ): Promise<SluiceEvent[]> {
    const spec = {
      agent,
      ...(name !== undefined && { model: name }),
      permissionMode: "bypass",
      ...more,
    } as const;
    await server.client.sessions.create(id, spec);
    await server.client.sendMessage(id, script(...steps));
    const events: SluiceEvent[] = [];
    for await (const event of server.client.subscribe(id, { extensions: true })) {
      events.push(event);
      await act(event);
      if (event.type === "turn.ended") return events;
    }
    return events;
  }

  it.skipIf(reason !== undefined)(
    "waits for a provider's limit over a kill -9 of the server, says until when, and completes",
    async () => {
      let killed = 0;
      const retries = { tries: 1, backoffMs: 1, untilReset: true };
      const steps = [{ fail: { kind: "rate_limited", times: 3 } }, { say: "all done" }];
      const events = await run(`limit-${agent}-${Date.now()}`, { retries }, steps, async (event) => {
        if (event.type !== "turn.retrying" || ++killed > 1) return;
        await server.kill();
        await server.start();
      });
      expect(find(events, "turn.ended")[0]?.data).toMatchObject({ status: "completed" });
      expect(assistantTexts(events).join("")).toContain("all done");
      const [waiting] = find(events, "turn.retrying");
      expect(waiting?.data).toMatchObject({ until: expect.any(String), error: { code: "rate_limited" } });
      expect(find(events, "turn.resumed").length).toBeGreaterThan(0);
      expectLawful(events);
    },
  );

  it.skipIf(reason !== undefined || name === undefined)(
    "keeps its model's name, and the provider gets another",
    async () => {
      const models = { [name as string]: `${name}-other` };
      model.reset();
      const events = await run(`alias-${agent}-${Date.now()}`, { models }, [{ say: "all done" }]);
      expect(find(events, "turn.ended")[0]?.data).toMatchObject({ status: "completed" });
      const turn = find(events, "model.started").find(({ data }) => data.kind === "turn");
      expect(turn?.data.model).toBe(name);
      const end = find(events, "model.ended").find(({ data }) => data.request_id === turn?.data.request_id);
      expect(end?.data.model).toBe(`${name}-other`);
    },
  );
});

function find<T extends SluiceEvent["type"]>(events: readonly SluiceEvent[], type: T): EventOf<T>[] {
  return events.filter((event): event is EventOf<T> => event.type === type);
}
