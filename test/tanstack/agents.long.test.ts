import { chat, type StreamChunk, toolDefinition } from "@tanstack/ai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { createScriptedModel, type ScriptedModel } from "../../src/model/index.ts";
import { sluiceText } from "../../src/tanstack/index.ts";
import { requireAgent } from "../support/agents.ts";
import { script } from "../support/engine.ts";
import { LED_TO_MODEL } from "../support/model.ts";
import { expectTellable } from "../dialects/ag-ui/oracle.ts";
import { type AgUiBench, openAgUi, toTold } from "../http/ag-ui/ag-ui-bench.ts";

let bench: AgUiBench;
let model: ScriptedModel;
beforeAll(async () => {
  bench = await openAgUi();
  model = await createScriptedModel();
});
afterAll(async () => {
  await bench.close();
  await model.close();
}, 60_000);

const NAMES = { claude: "claude-code.session-id", codex: "codex.session-id" };

describe.each(["claude", "codex"] as const)("chat() with the real %s", (agent) => {
  it(
    "calls the application's tool over MCP, and resumes (TS-06, TS-12, TS-13)",
    { timeout: 120_000 },
    async ({ skip }) => {
      const { reason } = requireAgent(agent);
      if (reason !== undefined) return skip(reason);
      const asked: string[] = [];
      const weather = toolDefinition({
        name: "weather",
        description: "The weather of a city",
        inputSchema: z.object({ city: z.string() }),
      }).server(({ city }, context) => {
        asked.push(city);
        context?.emitCustomEvent("code_mode:console", { level: "log", message: city, timestamp: 1 });
        return `sunny in ${city}`;
      });
      const adapter = sluiceText({ baseUrl: bench.url, agent });
      const { model: name, env } = LED_TO_MODEL[agent];
      const session = { model: name, env: env(model.url) };
      const run = async (steps: unknown[], more: { sessionId?: string } = {}): Promise<StreamChunk[]> => {
        const chunks: StreamChunk[] = [];
        const messages = [{ role: "user" as const, content: script(...steps) }];
        const stream = chat({
          adapter,
          messages,
          tools: [weather],
          threadId: `real-${agent}`,
          modelOptions: { session, ...more },
        });
        for await (const chunk of stream) chunks.push(chunk);
        return chunks;
      };
      const call = { mcp: { server: "sluice", tool: "weather", input: { city: "Bern" } } };
      const first = await run([call, { say: "I have heard." }]);
      expect(asked).toEqual(["Bern"]);
      const starts = first.flatMap((chunk) => (chunk.type === "TOOL_CALL_START" ? [chunk.toolCallName] : []));
      expect(starts).toEqual(["weather"]);
      const types = first.map((chunk) => (chunk.type === "CUSTOM" ? chunk.name : chunk.type));
      expect(types.indexOf("TOOL_CALL_END")).toBeLessThan(types.indexOf("code_mode:console"));
      expect(types.indexOf("code_mode:console")).toBeLessThan(types.indexOf("TOOL_CALL_RESULT"));
      expect(types.at(-1)).toBe("RUN_FINISHED");
      const named = first.find((chunk) => chunk.type === "CUSTOM" && chunk.name === NAMES[agent]);
      const { sessionId } = (named as unknown as { value: { sessionId: string } }).value;
      const second = await run([{ say: "again" }], { sessionId });
      expect(second.filter((chunk) => chunk.type === "CUSTOM" && chunk.name === NAMES[agent])).toHaveLength(
        1,
      );
      const replay = await bench.call("GET", `/ag-ui/${agent}?threadId=real-${agent}&offset=-1`);
      await expectTellable(toTold(await replay.text()));
    },
  );
});
