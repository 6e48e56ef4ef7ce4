import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { acp } from "../../../src/harness/acp/harness.ts";
import { requireAgent } from "../../support/agents.ts";
import { ofType, waitFor } from "../../support/engine.ts";
import { assistantTexts } from "../../support/laws.ts";
import { type AgentBench, openBench, type ToSpec } from "../agent-bench.ts";
import { callsOf, resultsOf } from "../told.ts";

const { reason } = requireAgent("opencode");
const describeLive = reason === undefined ? describe : describe.skip;

/** OpenCode as any ACP agent: only its command is known. */
const toSpec: ToSpec = (model) => ({
  agent: "acp",
  command: ["opencode", "acp"],
  env: {
    OPENCODE_CONFIG_CONTENT: JSON.stringify({
      autoupdate: false,
      share: "disabled",
      model: "fake/scripted",
      small_model: "fake/scripted",
      enabled_providers: ["fake"],
      permission: { bash: "ask" },
      provider: {
        fake: {
          npm: "@ai-sdk/openai-compatible",
          options: { baseURL: `${model.url}/v1`, apiKey: "none" },
          models: { scripted: { tool_call: true, limit: { context: 200_000, output: 8000 } } },
        },
      },
    }),
    OPENCODE_DISABLE_AUTOUPDATE: "1",
    OPENCODE_DISABLE_MODELS_FETCH: "1",
    OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
    OPENCODE_DISABLE_DEFAULT_PLUGINS: "1",
  },
});

describeLive(
  `any ACP agent, by its command${reason === undefined ? "" : ` (skipped: ${reason})`}`,
  { timeout: 60_000 },
  () => {
    let bench: AgentBench;

    beforeAll(async () => {
      bench = await openBench(acp, toSpec);
    });
    afterAll(() => bench.close());

    it("speaks, asks, works, writes and plans", async () => {
      await bench.create("work");
      const entries = [{ content: "One", status: "in_progress", priority: "medium" }];
      const steps = [
        { say: "I begin.", chunks: 3 },
        { shell: "echo one" },
        { write: { path: "a.txt", content: "x\n" } },
        { plan: entries },
        { say: "I am done." },
      ];
      const { end, events } = await bench.playWhile("work", steps, bench.permit("work", "once"));
      expect(end).toMatchObject({ status: "completed", stop_reason: "end_turn" });
      expect(assistantTexts(events)).toEqual(["I begin.", "I am done."]);
      expect(callsOf(events).map(({ name }) => name)).toEqual(["bash", "write", "todowrite"]);
      expect(resultsOf(events)[0]).toMatchObject({ status: "completed", content: [{ output: "one\n" }] });
      expect(ofType(events, "plan.updated")[0]?.data.entries).toEqual(entries);
      expect(end.usage?.input_tokens).toBeGreaterThan(0);
      await bench.expectLawful("work");
    });

    it("stops, and goes on after", async () => {
      const { end } = await bench.playWhile(
        "work",
        [{ say: "One." }, { sleep: 20_000 }],
        async ({ after }) => {
          await waitFor(bench.test.log, "work", "item.delta", { after });
          await bench.test.engine.interrupt("work");
        },
      );
      expect(end).toMatchObject({ status: "interrupted" });
      const { events } = await bench.play("work", { say: "Still here." });
      expect(assistantTexts(events)).toEqual(["Still here."]);
      await bench.expectLawful("work");
    });

    it("chooses a mode that the agent offers, and says which there are instead of another", async () => {
      await bench.create("plans", { permissionMode: "plan" });
      expect((await bench.play("plans", { say: "Planned." })).end.status).toBe("completed");
      await bench.create("odd", { agentMode: "nonsense" });
      const { end } = await bench.play("odd", { say: "Never." });
      expect(end).toMatchObject({
        status: "failed",
        stop_reason: "model_error",
        error: { message: expect.stringContaining("build") },
      });
    });
  },
);

describe("an ACP agent without a command", () => {
  it("is refused with the missing field", () => {
    const context = { workspace: "/workspace", home: "/home" };
    expect(() => acp.launch({ agent: "acp" }, context)).toThrow(/needs the command/);
    expect(() => acp.launch({ agent: "acp", command: ["no-such-agent"] }, context)).toThrow(/no program/);
  });
});
