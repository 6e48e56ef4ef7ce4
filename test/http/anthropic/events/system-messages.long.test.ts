import Anthropic from "@anthropic-ai/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createScriptedModel, type ModelRequest, type ScriptedModel } from "../../../../src/model/index.ts";
import { type AgentId, requireAgent } from "../../../support/agents.ts";
import { LED_TO_MODEL } from "../../../support/model.ts";
import { startServer, type TestServer } from "../../../support/server.ts";
import { history, isRunning, message, ofType, text, watch } from "../session-bench.ts";

const SOFTLY = /Speak softly from now on\.[^]*And slowly\./;
const AGENTS: readonly AgentId[] = ["claude", "codex", "opencode", "grok"];
/** The agent cannot change the system prompt of a resumed conversation, so system messages stand among the user's. */
const IN_BAND: ReadonlySet<AgentId> = new Set<AgentId>(["grok"]);

/** D7: a system.message reaches the agent's model as a system message, on its turn and on every later one. */
describe.each(AGENTS)("%s and system messages", (agentId) => {
  const { reason } = requireAgent(agentId);
  const { model: modelId, env } = LED_TO_MODEL[agentId];
  const isPrivileged = !IN_BAND.has(agentId);
  let model: ScriptedModel;
  let server: TestServer;

  beforeAll(async () => {
    if (reason !== undefined) return;
    model = await createScriptedModel();
    server = await startServer({ env: env(model.url) });
  });
  afterAll(async () => {
    await server?.close();
    await model?.close();
  });

  it.skipIf(reason !== undefined)(
    "hold, also after the server died",
    async () => {
      const { beta } = new Anthropic({ apiKey: server.token, baseURL: `${server.url}/anthropic` });
      const agent = await beta.agents.create({
        name: "softly",
        model: modelId,
        system: "You are the agent of this test.",
        metadata: { harness: agentId },
        tools: [{ type: "agent_toolset_20260401" }],
      });
      const environment = await beta.environments.create({ name: "softly" });
      const { id } = await beta.sessions.create({ agent: agent.id, environment_id: environment.id });
      const run = async (words: string, system?: string): Promise<{ privileged: string; said: string }> => {
        model.reset();
        const told = { type: "system.message", content: [{ type: "text", text: system }] };
        const events = [message(text({ say: words })), ...(system === undefined ? [] : [told])];
        await watch({ beta }, id, () => beta.sessions.events.send(id, { events: events as never }));
        return heardOf(model.requests.filter(({ body }) => asText(body).includes(words)));
      };
      await run("Zero.");
      const first = await run("One.", "Speak softly from now on.");
      expect([first.privileged.includes("softly"), first.said.includes("softly")]).toEqual([
        isPrivileged,
        !isPrivileged,
      ]);
      const second = await run("Two.", "And slowly.");
      await server.kill();
      await server.start();
      const third = await run("Three.");
      for (const { privileged, said } of [second, third]) {
        expect([SOFTLY.test(privileged), SOFTLY.test(said)]).toEqual([isPrivileged, !isPrivileged]);
        expect((privileged + said).includes("You are the agent of this test.")).toBe(true);
        // Both turns are one conversation.
        expect(said.includes("Zero.")).toBe(true);
      }
      const told = await history({ beta }, id);
      expect(ofType(told, "system.message")).toHaveLength(2);
      expect(told.filter(isRunning)).toHaveLength(4);
    },
    240_000,
  );
});

interface Said {
  readonly role?: string;
  readonly content?: unknown;
}

/** The texts of system or developer messages, and all other texts, in any wire format. */
function heardOf(requests: readonly ModelRequest[]): { privileged: string; said: string } {
  const privileged: unknown[] = [];
  const said: unknown[] = [];
  for (const { body } of requests.slice(-1)) {
    const { system, instructions, systemInstruction, ...rest } = body as Record<string, unknown>;
    privileged.push(system, instructions, systemInstruction);
    const { messages = [], input = [], contents = [] } = rest as Record<string, Said[]>;
    for (const one of [messages, input, contents].flat())
      (one.role === "system" || one.role === "developer" ? privileged : said).push(one);
  }
  return { privileged: asText(privileged), said: asText(said) };
}

function asText(parts: unknown): string {
  return JSON.stringify(parts) ?? "";
}
