import Anthropic from "@anthropic-ai/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createScriptedModel, type ScriptedModel } from "../../../src/model/index.ts";
import { type AgentId, requireAgent } from "../../support/agents.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { type Event, history, isRunning, message, ofType, text, watch } from "./session-bench.ts";

const KEY = "sk-test-0123456789abcdefghij";
const AGENTS: readonly { id: AgentId; model: string }[] = [
  { id: "claude", model: "claude-sonnet-4-5" },
  { id: "codex", model: "gpt-5.5" },
];
const ALWAYS_ASK = { permission_policy: { type: "always_ask" } };
const WEATHER = {
  type: "custom",
  name: "weather",
  description: "Tells the weather of a city.",
  input_schema: { type: "object", properties: { city: { type: "string" } } },
};

/** As at a user's: the server's environment has the keys and the addresses of the models. */
describe.each(AGENTS)("$id, by the official SDK", ({ id: agentId, model: modelId }) => {
  const { reason } = requireAgent(agentId);
  let model: ScriptedModel;
  let server: TestServer;
  let beta: Anthropic["beta"];

  beforeAll(async () => {
    if (reason !== undefined) return;
    model = await createScriptedModel();
    server = await startServer({
      env: {
        ANTHROPIC_BASE_URL: model.url,
        ANTHROPIC_API_KEY: KEY,
        OPENAI_BASE_URL: `${model.url}/v1`,
        OPENAI_API_KEY: KEY,
      },
    });
    beta = new Anthropic({ apiKey: server.token, baseURL: `${server.url}/anthropic` }).beta;
  }, 60_000);
  afterAll(async () => {
    await server?.close();
    await model?.close();
  });

  let count = 0;
  const open = async (given: { tools?: object[] } = {}): Promise<string> => {
    count += 1;
    const agent = await beta.agents.create({
      name: `real ${count}`,
      model: modelId,
      tools: (given.tools ?? [{ type: "agent_toolset_20260401" }]) as never,
    });
    const environment = await beta.environments.create({ name: `real ${agentId} ${count}` });
    return (await beta.sessions.create({ agent: agent.id, environment_id: environment.id })).id;
  };
  const send = (session: string, ...events: object[]) =>
    beta.sessions.events.send(session, { events: events as never });
  const turn = (session: string, ...steps: unknown[]): Promise<Event[]> =>
    watch({ beta }, session, () => send(session, message(text(...steps))));
  const sentToModel = (): string => JSON.stringify(model.requests.map(({ body }) => body));

  it.skipIf(reason !== undefined)(
    "has its model's text, and runs allowed tools without a confirmation",
    async () => {
      const session = await open();
      const events = await turn(
        session,
        { shell: "echo made > made.txt; cat made.txt" },
        { say: "I am done." },
      );
      const [use] = ofType(events, "agent.tool_use");
      expect(use).toMatchObject({
        name: "bash",
        input: { command: expect.stringContaining("made.txt") },
        evaluated_permission: "allow",
      });
      const [result] = ofType(events, "agent.tool_result");
      expect(result).toMatchObject({ tool_use_id: use?.id, is_error: false });
      expect(JSON.stringify(result?.content)).toContain("made");
      expect(words(events)).toEqual(["I am done."]);
      expect(events.at(-1)).toMatchObject({ stop_reason: { type: "end_turn" } });
      expect((await beta.sessions.retrieve(session)).usage.input_tokens).toBeGreaterThan(0);
      expect(JSON.stringify(await history({ beta }, session))).not.toContain(KEY);
    },
    120_000,
  );

  it.skipIf(reason !== undefined)(
    "asks for a confirmation, and passes a refusal's reason on",
    async () => {
      const configs = [{ name: "bash", ...ALWAYS_ASK }];
      const session = await open({ tools: [{ type: "agent_toolset_20260401", configs }] });
      const first = await turn(session, { shell: "echo harmless" }, { say: "Over." });
      const [use] = ofType(first, "agent.tool_use");
      expect(use).toMatchObject({ name: "bash", evaluated_permission: "ask" });
      expect(first.at(-1)).toMatchObject({ stop_reason: { type: "requires_action", event_ids: [use?.id] } });
      const allow = { type: "user.tool_confirmation", tool_use_id: use?.id, result: "allow" };
      const second = await watch({ beta }, session, () => send(session, allow));
      expect(JSON.stringify(ofType(second, "agent.tool_result"))).toContain("harmless");
      expect(second.at(-1)).toMatchObject({ stop_reason: { type: "end_turn" } });
      const third = await turn(session, { shell: "touch denied.txt" }, { say: "Well." });
      const [asked] = ofType(third, "agent.tool_use");
      const deny_message = "not in my house";
      const deny = { type: "user.tool_confirmation", tool_use_id: asked?.id, result: "deny", deny_message };
      const fourth = await watch({ beta }, session, () => send(session, deny));
      expect(ofType(fourth, "agent.tool_result")).toMatchObject([{ tool_use_id: asked?.id, is_error: true }]);
    },
    120_000,
  );

  it.skipIf(reason !== undefined)(
    "runs the application's own tool, with any name",
    async () => {
      const session = await open({ tools: [{ type: "agent_toolset_20260401" }, WEATHER] });
      const first = await turn(
        session,
        { mcp: { server: "sluice", tool: "weather", input: { city: "Rome" } } },
        { say: "Good to know." },
      );
      const [use] = ofType(first, "agent.custom_tool_use");
      expect(use).toMatchObject({ name: "weather", input: { city: "Rome" } });
      expect(ofType(first, "agent.mcp_tool_use")).toEqual([]);
      expect(first.at(-1)).toMatchObject({ stop_reason: { type: "requires_action", event_ids: [use?.id] } });
      model.reset();
      const content = [{ type: "text", text: "sunny in Rome" }];
      const result = { type: "user.custom_tool_result", custom_tool_use_id: use?.id, content };
      const second = await watch({ beta }, session, () => send(session, result));
      expect(words(second)).toEqual(["Good to know."]);
      expect(second.at(-1)).toMatchObject({ stop_reason: { type: "end_turn" } });
      expect(sentToModel()).toContain("sunny in Rome");
    },
    120_000,
  );

  it.skipIf(reason !== undefined)(
    "stops when it is interrupted, and goes on with the next message",
    async () => {
      const session = await open();
      const stopped = await watch({ beta }, session, async () => {
        const running = watch(
          { beta },
          session,
          () => send(session, message(text({ shell: "sleep 60" }))),
          isRunning,
        );
        await running;
        await send(session, { type: "user.interrupt" });
      });
      expect(stopped.at(-1)).toMatchObject({
        type: "session.status_idle",
        stop_reason: { type: "end_turn" },
      });
      const after = await turn(session, { say: "Here I am." });
      expect(words(after)).toEqual(["Here I am."]);
    },
    120_000,
  );

  it.skipIf(reason !== undefined)(
    "does not run a disabled tool",
    async () => {
      const configs = [{ name: "bash", enabled: false }];
      const session = await open({ tools: [{ type: "agent_toolset_20260401", configs }] });
      const events = await turn(session, { shell: "touch /workspace/ran.txt" }, { say: "Well." });
      const use = ofType(events, "agent.tool_use").find(({ name }) => name === "bash");
      expect(use).toMatchObject({ evaluated_permission: "deny" });
      const result = ofType(events, "agent.tool_result").find(({ tool_use_id: id }) => id === use?.id);
      expect(result).toMatchObject({ is_error: true });
      expect(events.at(-1)).toMatchObject({ stop_reason: { type: "end_turn" } });
      const listed = await turn(session, { say: "Still here." });
      expect(words(listed)).toEqual(["Still here."]);
    },
    120_000,
  );
});

function words(events: readonly Event[]): string[] {
  return ofType(events, "agent.message").flatMap(({ content }) =>
    content.map((block) => (block.type === "text" ? block.text : "")),
  );
}
