import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Budget, EventOf, SluiceEvent } from "../../src/contract/index.ts";
import { createScriptedModel, type ScriptedModel } from "../../src/model/index.ts";
import { script } from "../support/engine.ts";
import { assistantTexts, expectLawful } from "../support/laws.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { LED_AGENTS, toServerEnv } from "./led-table.ts";

/** The count of requests when no further one arrives: those that were open when the budget was used up still do. */
async function untilNoneArrives({ requests }: ScriptedModel): Promise<number> {
  for (let before = -1; before !== requests.length; await sleep(500)) before = requests.length;
  return requests.length;
}

describe.each(LED_AGENTS)(
  "the budget of a led $agent",
  { timeout: 180_000 },
  ({ agent, model: name, reason }) => {
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

    const create = (id: string, budget: Budget): Promise<unknown> =>
      server.client.sessions.create(id, {
        agent,
        ...(name !== undefined && { model: name }),
        permissionMode: "bypass",
        budget,
      });

    /** Uses 500 tokens with its first request, and then wants two more. */
    const STEPS = script(
      { usage: { input_tokens: 400, output_tokens: 100 } },
      { shell: "echo one" },
      { usage: { input_tokens: 40, output_tokens: 10 } },
      { shell: "echo two" },
      { say: "all done" },
    );

    async function follow(id: string, act: (event: SluiceEvent) => unknown): Promise<SluiceEvent[]> {
      const events: SluiceEvent[] = [];
      for await (const event of server.client.subscribe(id, { extensions: true })) {
        events.push(event);
        await act(event);
        if (event.type === "turn.ended") return events;
      }
      return events;
    }

    it.skipIf(reason !== undefined)(
      "holds the next request over a kill -9 of the server, and the same turn goes on when it is raised",
      async () => {
        const id = `ask-${agent}-${Date.now()}`;
        await create(id, { tokens: 450 });
        await server.client.sendMessage(id, STEPS);
        let passed = 0;
        const events = await follow(id, async (event) => {
          if (event.type !== "permission.requested") return;
          passed = await untilNoneArrives(model);
          await server.kill();
          await server.start();
          await sleep(1_000);
          expect(model.requests.length, "no request passes while the budget is open").toBe(passed);
          await server.client.replyPermission(id, event.data.permission_id, { reply: "once" });
        });
        expect(passed).toBeGreaterThan(0);
        expect(find(events, "turn.ended")[0]?.data).toMatchObject({ status: "completed" });
        expect(assistantTexts(events).join("")).toContain("all done");
        expect(find(events, "budget.reached")[0]?.data).toMatchObject({ measure: "tokens", action: "ask" });
        expect(find(events, "sandbox.paused")).toEqual([]);
        expectLawful(events);
        const { rows } = await server.client.usage({ by: "turn", session: id });
        const usage = find(events, "turn.ended")[0]?.data.usage;
        expect(rows.find(({ turn }) => turn === events.at(-1)?.turn_id)).toMatchObject({
          input_tokens: usage?.input_tokens,
          output_tokens: usage?.output_tokens,
        });
      },
    );

    it.skipIf(reason !== undefined)("with stop ends the turn before another request passes", async () => {
      const id = `stop-${agent}-${Date.now()}`;
      await create(id, { tokens: 450, on: "stop" });
      await server.client.sendMessage(id, STEPS);
      const events = await follow(id, () => {});
      expect(find(events, "turn.ended")[0]?.data).toMatchObject({
        status: "failed",
        stop_reason: "budget_reached",
      });
      const used = find(events, "model.ended").filter(({ data }) => (data.usage?.input_tokens ?? 0) >= 400);
      expect(used, "one request used the budget up, and none followed").toHaveLength(1);
      expect(find(events, "model.ended").filter(({ data }) => data.usage?.input_tokens === 40)).toEqual([]);
      expectLawful(events);
    });
  },
);

function find<T extends SluiceEvent["type"]>(events: readonly SluiceEvent[], type: T): EventOf<T>[] {
  return events.filter((event): event is EventOf<T> => event.type === type);
}
