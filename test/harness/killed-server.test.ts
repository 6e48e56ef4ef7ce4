import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { SluiceEvent } from "../../src/contract/index.ts";
import { createScriptedModel, type ScriptedModel } from "../../src/model/index.ts";
import { type AgentId, requireAgent } from "../support/agents.ts";
import { script } from "../support/engine.ts";
import { assistantTexts, expectLawful } from "../support/laws.ts";
import { startServer, type TestServer } from "../support/server.ts";

/** How each CLI is led to the scripted model; all run in the default sandbox, with nothing open but the model's port. */
const AGENTS: Readonly<Record<AgentId, { model: string; env: (url: string) => Record<string, string> }>> = {
  claude: {
    model: "claude-sonnet-4-5",
    env: (url) => ({ ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: "sk-ant-any-key-will-do" }),
  },
  codex: {
    model: "gpt-5.5",
    env: (url) => ({ OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_KEY: "sk-any-key-will-do" }),
  },
  opencode: {
    model: "scripted",
    env: (url) => ({ OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_KEY: "sk-any-key-will-do" }),
  },
  gemini: {
    model: "gemini-2.5-pro",
    env: (url) => ({ GOOGLE_GEMINI_BASE_URL: url, GEMINI_API_KEY: "any-key-will-do" }),
  },
  grok: {
    model: "scripted",
    env: (url) => ({ XAI_BASE_URL: `${url}/v1`, XAI_API_KEY: "xai-any-key-will-do" }),
  },
};

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

  it.for(Object.keys(AGENTS) as AgentId[])(
    "%s goes on, and nothing of it is lost or told twice",
    async (id, { skip }) => {
      const { path, reason } = requireAgent(id);
      if (path === undefined) return skip(reason);
      const { model: name, env } = AGENTS[id];
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
