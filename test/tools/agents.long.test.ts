import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { SessionSpec, SluiceEvent } from "../../src/contract/index.ts";
import { claude } from "../../src/harness/claude/harness.ts";
import { codex } from "../../src/harness/codex/harness.ts";
import { gemini } from "../../src/harness/gemini/harness.ts";
import { grok } from "../../src/harness/grok/harness.ts";
import { opencode } from "../../src/harness/opencode/harness.ts";
import { readKey } from "../../src/tools/server.ts";
import { tokenOf } from "../../src/tools/token.ts";
import { type AgentBench, openBench, type ToSpec } from "../harness/agent-bench.ts";
import { requireAgent } from "../support/agents.ts";
import { ofType, processesWith, waitFor } from "../support/engine.ts";
import { assistantTexts } from "../support/laws.ts";

const WEATHER = {
  name: "weather",
  description: "The weather of a city",
  inputSchema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};

const AGENTS: Readonly<Record<string, { harness: unknown; sandbox: string; toSpec: ToSpec }>> = {
  claude: {
    harness: claude,
    sandbox: "bwrap",
    toSpec: ({ url }) => ({
      agent: "claude",
      model: "claude-sonnet-4-5",
      env: { ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: "sk-ant-any-key-will-do" },
    }),
  },
  codex: {
    harness: codex,
    sandbox: "bwrap",
    toSpec: ({ url }) => ({
      agent: "codex",
      model: "gpt-5.5",
      env: { OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_KEY: "sk-any-key-will-do" },
    }),
  },
  opencode: {
    harness: opencode,
    sandbox: "local",
    toSpec: ({ url }) => ({ agent: "opencode", model: "scripted", env: { OPENAI_BASE_URL: `${url}/v1` } }),
  },
  gemini: {
    harness: gemini,
    sandbox: "local",
    toSpec: ({ url }) => ({
      agent: "gemini",
      model: "gemini-2.5-pro",
      env: { GOOGLE_GEMINI_BASE_URL: url, GEMINI_API_KEY: "any-key-will-do" },
    }),
  },
  grok: {
    harness: grok,
    sandbox: "local",
    toSpec: ({ url }) => ({
      agent: "grok",
      env: { XAI_BASE_URL: `${url}/v1`, XAI_API_KEY: "xai-any-key-will-do" },
    }),
  },
};

describe.each(Object.entries(AGENTS))("the application's tools of %s, the real one", (id, agent) => {
  const { reason } = requireAgent(id as Parameters<typeof requireAgent>[0]);
  const spec: Partial<SessionSpec> = { tools: { custom: [WEATHER] }, watch: false };
  let bench: AgentBench;
  beforeAll(async () => {
    if (reason !== undefined) return void console.info(`skipped: ${reason}`);
    bench = await openBench(agent.harness, agent.toSpec, { defaultSandbox: agent.sandbox });
    await bench.create("s", spec);
  });
  afterAll(() => bench?.close(), 60_000);

  it.skipIf(reason !== undefined)(
    "a call is one request, waits through a restart, and its answer reaches the model",
    { timeout: 90_000 },
    async () => {
      const steps = [call("Bern"), { say: "I have heard." }];
      const { end, events } = await bench.playWhile("s", steps, async ({ after }) => {
        const request = await waitFor(bench.test.log, "s", "tool.requested", { after, timeoutMs: 60_000 });
        expect(request.data).toMatchObject({ name: "weather", input: { city: "Bern" } });
        await waitFor(bench.test.log, "s", "turn.waiting", { after });
        await expectNoToken(bench);
        await bench.test.restart();
        const events = [{ name: "seen", value: 1 }];
        await bench.test.engine.resolveTool("s", request.data.request_id, { output: "sunny", events });
      });
      expect(end).toMatchObject({ status: "completed" });
      const [request, ...others] = ofType(events, "tool.requested");
      expect(others).toEqual([]);
      const [asked] = partsOf(events, "tool_call");
      expect(asked).toMatchObject({ name: "mcp__sluice__weather", call_id: request?.data.call_id });
      expect(partsOf(events, "tool_result")[0]).toMatchObject({
        call_id: request?.data.call_id,
        output: expect.stringContaining("sunny") as string,
      });
      expect(ofType(events, "custom").map(({ data }) => data)).toEqual([{ name: "seen", value: 1 }]);
      expect(
        ofType(events, "turn.waiting").flatMap(({ data }) => data.actions.map(({ kind }) => kind)),
      ).toEqual(["tool"]);
      expect(assistantTexts(events)).toEqual(["I have heard."]);
      expect(JSON.stringify(bench.model.requests.at(-1)?.body)).toContain("sunny");
      await bench.expectLawful("s");
    },
  );

  it.skipIf(reason !== undefined)(
    "an interrupt withdraws the call, and the session goes on",
    { timeout: 60_000 },
    async () => {
      const { end, events } = await bench.playWhile("s", [call("Basel")], async ({ after }) => {
        await waitFor(bench.test.log, "s", "turn.waiting", { after, timeoutMs: 40_000 });
        await bench.test.engine.interrupt("s");
      });
      expect(end.status).toBe("interrupted");
      expect(ofType(events, "tool.resolved").map(({ data }) => data.status)).toEqual(["cancelled"]);
      const next = await bench.play("s", { say: "On it goes." });
      expect(assistantTexts(next.events)).toEqual(["On it goes."]);
      await bench.expectLawful("s");
      await expectNoToken(bench);
    },
  );
});

function call(city: string): unknown {
  return { mcp: { server: "sluice", tool: "weather", input: { city } } };
}

function partsOf<T extends "tool_call" | "tool_result">(
  events: readonly SluiceEvent[],
  type: T,
): { type: T; call_id: string }[] {
  const parts = ofType(events, "item.completed").flatMap(({ data }) => data.item.content);
  return parts.filter((part) => part.type === type) as unknown as { type: T; call_id: string }[];
}

/** Expects the token only in the agent's environment: in no file, process list, event or model request. */
async function expectNoToken({ test, model }: AgentBench): Promise<void> {
  const { createdAt } = await test.engine.info("s");
  const key = await readKey(join(test.folder, "tools"));
  const token = tokenOf(key, { session: "s", createdAt, process: 1 });
  expect((await processesWith(`SLUICE_TOOLS_TOKEN=${token}`)).length).toBeGreaterThan(0);
  expect(JSON.stringify(model.requests)).not.toContain(token);
  const entries = await readdir(test.folder, { recursive: true, withFileTypes: true });
  for (const entry of entries.filter((entry) => entry.isFile())) {
    const path = join(entry.parentPath, entry.name);
    const content = await readFile(path).catch(() => Buffer.alloc(0));
    expect(content.includes(token), path).toBe(false);
  }
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  for (const pid of pids) {
    const line = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    expect(line.includes(token), line).toBe(false);
  }
}
