import { chat, type StreamChunk } from "@tanstack/ai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createScriptedModel, type ScriptedModel } from "../../../src/model/index.ts";
import { sluiceText } from "../../../src/tanstack/index.ts";
import { type AgUiBench, openAgUi } from "../../http/ag-ui/ag-ui-bench.ts";
import { requireAgent } from "../../support/agents.ts";
import { script } from "../../support/engine.ts";
import { LED_TO_MODEL } from "../../support/model.ts";
import { collect, namesOf, valuesOf } from "./run.ts";

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

describe.each([
  ["grok", "grok-build.session-id"],
  ["claude", "claude-code.session-id"],
  ["codex", "codex.session-id"],
  ["opencode", "opencode.session-id"],
] as const)("seed 000, the real %s", (agent, name) => {
  it(
    `${name}: once, when the in-sandbox session is created or resumed: pass it back via modelOptions.sessionId (TS-12, TS-13)`,
    { timeout: 120_000 },
    async ({ skip }) => {
      const { reason } = requireAgent(agent);
      if (reason !== undefined) return skip(reason);
      const led = LED_TO_MODEL[agent];
      const session = { model: led.model, env: led.env(model.url) };
      const run = (
        words: string,
        more: { sessionId?: string; threadId?: string },
      ): Promise<StreamChunk[]> => {
        const { threadId, ...options } = more;
        return collect(
          chat({
            adapter: sluiceText({ baseUrl: bench.url, agent }),
            messages: [{ role: "user", content: script({ say: words }) }],
            modelOptions: { session, ...options },
            ...(threadId === undefined ? {} : { threadId }),
          }),
        );
      };
      const created = await run("first", { threadId: `seed-${agent}` });
      const [value] = valuesOf(created, name) as [{ sessionId: string }];
      const { sessionId } = value;
      expect(valuesOf(created, name)).toEqual([{ sessionId: expect.stringMatching(/./) as string }]);
      expect(namesOf(created).indexOf(name)).toBeLessThan(namesOf(created).indexOf("TEXT_MESSAGE_START"));
      // On another thread: the agent's session id is enough.
      const resumed = await run("second", { sessionId });
      expect(valuesOf(resumed, name)).toHaveLength(1);
      expect(resumed.at(-1)?.type).toBe("RUN_FINISHED");
      const text = resumed.flatMap((chunk) => (chunk.type === "TEXT_MESSAGE_CONTENT" ? [chunk.delta] : []));
      expect(text.join("")).toBe("second");
      const turns = await bench.test.log.read(`seed-${agent}`, {
        after: 0,
        limit: 10_000,
        types: new Set(["turn.started"]),
      });
      expect(turns).toHaveLength(2);
    },
  );
});
