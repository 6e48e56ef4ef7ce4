import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { SluiceEvent } from "../../src/contract/index.ts";
import { createScriptedModel, type ScriptedModel } from "../../src/model/index.ts";
import { type AgentId, requireAgent } from "../support/agents.ts";
import { LED_TO_MODEL } from "../support/model.ts";
import { script } from "../support/engine.ts";
import { assistantTexts, expectLawful } from "../support/laws.ts";
import { startServer, type TestServer } from "../support/server.ts";

describe("kill -9 of the server in the middle of a real agent's turn", () => {
  let server: TestServer;
  let model: ScriptedModel;
  beforeAll(async () => {
    [server, model] = await Promise.all([startServer(), createScriptedModel()]);
  });
  afterAll(async () => {
    await server.close();
    await model.close();
  });

  it.for(Object.keys(LED_TO_MODEL) as AgentId[])(
    "%s goes on, and nothing of it is lost or told twice",
    async (id, { skip }) => {
      const { path, reason } = requireAgent(id);
      if (path === undefined) return skip(reason);
      const { model: name, env } = LED_TO_MODEL[id];
      await server.client.sessions.create(id, {
        agent: id,
        model: name,
        env: env(model.url),
        permissionMode: "bypass",
      });
      const steps = [{ say: "first" }, { shell: "sleep 3; echo of the shell" }, { say: "the very end" }];
      await server.client.sendMessage(id, script(...steps));
      const events: SluiceEvent[] = [];
      let killed: Promise<void> | undefined;
      for await (const event of server.client.subscribe(id, { extensions: true })) {
        events.push(event);
        const isCall = event.type === "item.completed" && event.data.item.kind === "tool_call";
        if (isCall) killed ??= server.kill().then(() => server.start());
        if (event.type === "turn.ended") break;
      }
      await killed;
      expect(killed, "it was killed").toBeDefined();
      expectLawful(events);
      expect(events.at(-1)).toMatchObject({ type: "turn.ended", data: { status: "completed" } });
      expect(events.filter(({ type }) => type === "process.started")).toHaveLength(1);
      expect(assistantTexts(events).join("|")).toBe("first|the very end");
      expect(JSON.stringify(events)).toContain("of the shell");

      await server.client.sendMessage(id, script({ say: "and once more" }));
      for await (const event of server.client.subscribe(id, { after: events.length, extensions: true })) {
        events.push(event);
        if (event.type === "turn.ended") break;
      }
      expect(assistantTexts(events).at(-1)).toBe("and once more");
      expectLawful(events);
    },
  );
});
