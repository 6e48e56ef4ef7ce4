import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createScriptedModel, type ScriptedModel } from "../../src/model/index.ts";
import type { AgentConfig } from "../../src/sdk/index.ts";
import { requireAgent } from "../support/agents.ts";
import { script as steps } from "../support/engine.ts";
import { CORNERS, hear, openBench, type SdkBench } from "./bench.ts";

const KEY = "sk-test-0123456789abcdefghij";

/** The real CLIs, with the scripted model behind them. */
const AGENTS: readonly (Omit<AgentConfig, "type"> & { type: "claude" | "codex" | "opencode" | "gemini" })[] =
  [
    { type: "claude", model: "claude-sonnet-4-5" },
    { type: "codex", model: "gpt-5.5" },
  ];

describe.each(AGENTS.map((agent, index) => [agent.type, agent, CORNERS[index % 2]] as const))(
  "the real %s",
  (_name, agent, place) => {
    let bench: SdkBench;
    let model: ScriptedModel;
    beforeEach(async () => {
      model = await createScriptedModel();
      bench = await openBench({ backend: place?.backend ?? "embedded", sandbox: "local" });
    });
    afterEach(async () => {
      await bench.close();
      await model.close();
    });

    it("runs, writes, is interrupted and remembers; its key is nowhere", async ({ skip }) => {
      const { path, reason } = requireAgent(agent.type);
      if (path === undefined) return skip(reason);
      const providerBaseUrl = agent.type === "codex" ? `${model.url}/v1` : model.url;
      const sluice = bench.make().withAgent({ ...agent, apiKey: KEY, providerBaseUrl });
      const heard = hear(sluice);
      const prompt = steps(
        { say: "on it" },
        { write: { path: "output/a.txt", content: "made\n" } },
        { say: "done" },
      );
      const result = await sluice.run({ prompt });
      expect(result.stderr + result.stdout.slice(-2000)).not.toContain(KEY);
      expect({ exitCode: result.exitCode, stderr: result.stderr }).toEqual({
        exitCode: 0,
        stderr: expect.any(String) as unknown,
      });
      expect(heard.text()).toContain("on it");
      expect((await sluice.getOutputFiles()).files).toEqual({ "a.txt": "made\n" });
      const edit = heard.content
        .map(({ update }) => update)
        .find((update) => update.sessionUpdate === "tool_call" && update.kind === "edit");
      expect(edit).toMatchObject({ content: [{ type: "diff", oldText: null, newText: "made\n" }] });
      void sluice.run({ prompt: steps({ sleep: 30_000 }, { say: "never" }), background: true });
      expect(await sluice.interrupt()).toBe(true);
      expect((await sluice.run({ prompt: steps({ say: "again" }) })).exitCode).toBe(0);
      const events = await bench.log(result.sandboxId);
      expect(JSON.stringify(events)).not.toContain(KEY);
      expect(new Set(events.flatMap((event) => event.native_session_id ?? [])).size).toBe(1);
      const env = await sluice.executeCommand("env");
      expect(env.stdout).not.toContain("API_KEY");
    });
  },
);
