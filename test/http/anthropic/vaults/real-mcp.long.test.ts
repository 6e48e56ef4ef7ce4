import Anthropic from "@anthropic-ai/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createScriptedModel, type ScriptedModel } from "../../../../src/model/index.ts";
import { type AgentId, requireAgent } from "../../../support/agents.ts";
import { startServer, type TestServer } from "../../../support/server.ts";
import { type Event, isEnd, message, ofType, text, watch } from "../session-bench.ts";
import { DOCS_TOOLS, type McpServer, startMcpServer } from "./mcp-server.ts";

const KEY = "sk-test-0123456789abcdefghij";
const AGENTS: readonly { id: AgentId; model: string }[] = [
  { id: "claude", model: "claude-sonnet-4-5" },
  { id: "codex", model: "gpt-5.5" },
];

describe.each(AGENTS)("$id with an MCP server behind a vault", ({ id: agentId, model: modelId }) => {
  const { reason } = requireAgent(agentId);
  let model: ScriptedModel;
  let server: TestServer;
  let docs: McpServer;
  let beta: Anthropic["beta"];

  beforeAll(async () => {
    if (reason !== undefined) return;
    model = await createScriptedModel();
    docs = await startMcpServer((authorization) => authorization === "Bearer vault-token-1f2e");
    const env = {
      ANTHROPIC_BASE_URL: model.url,
      ANTHROPIC_API_KEY: KEY,
      OPENAI_BASE_URL: `${model.url}/v1`,
      OPENAI_API_KEY: KEY,
    };
    server = await startServer({ env });
    beta = new Anthropic({ apiKey: server.token, baseURL: `${server.url}/anthropic` }).beta;
  }, 60_000);
  afterAll(async () => {
    await server?.close();
    await model?.close();
    docs?.close();
  });

  /** One turn of a new session with this token for the server at `url`. */
  const run = async (
    url: string,
    token: string,
    awaited: readonly Event["type"][],
    ...steps: object[]
  ): Promise<Event[]> => {
    const vault = await beta.vaults.create({ display_name: "v" });
    const auth = { type: "static_bearer" as const, mcp_server_url: url, token };
    await beta.vaults.credentials.create(vault.id, { auth });
    const agent = await beta.agents.create({
      name: `real mcp ${token}`,
      model: modelId,
      tools: DOCS_TOOLS as never,
      mcp_servers: [{ type: "url", name: "docs", url }],
    });
    const environment = await beta.environments.create({ name: `real mcp ${agentId} ${Math.random()}` });
    const { id } = await beta.sessions.create({
      agent: agent.id,
      environment_id: environment.id,
      vault_ids: [vault.id],
    });
    // An agent may load its servers only after its first answer.
    const missing = new Set(awaited);
    let isOver = false;
    return watch(
      { beta },
      id,
      () => beta.sessions.events.send(id, { events: [message(text(...steps))] }),
      (event) => {
        missing.delete(event.type);
        isOver ||= isEnd(event);
        return isOver && missing.size === 0;
      },
    );
  };

  it.skipIf(reason !== undefined)(
    "H5: calls its tools with the vault's token",
    async () => {
      const call = { mcp: { server: "docs", tool: "find", input: {} } };
      const events = await run(docs.url, "vault-token-1f2e", [], call, { say: "on" });
      expect(JSON.stringify(ofType(events, "agent.mcp_tool_result"))).toContain("page 7");
      expect(ofType(events, "session.error")).toEqual([]);
    },
    120_000,
  );

  it.skipIf(reason !== undefined).each([
    ["is down", "http://127.0.0.1:9/mcp", "mcp_connection_failed_error"],
    ["refuses the token", undefined, "mcp_authentication_failed_error"],
  ])(
    "H5: reports a server that %s by its name and continues",
    async (_, url, type) => {
      const events = await run(url ?? docs.url, "a-wrong-token", ["session.error"], { say: "on" });
      expect(ofType(events, "session.error").map(({ error }) => error)).toMatchObject([
        { type, mcp_server_name: "docs" },
      ]);
      expect(ofType(events, "session.status_idle")).toMatchObject([{ stop_reason: { type: "end_turn" } }]);
    },
    120_000,
  );
});
