import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AnthropicBench, openAnthropic } from "../anthropic-bench.ts";
import { history, makeSession, ofType, turn } from "../session-bench.ts";
import { CALL_DOCS, DOCS_TOOLS, type McpServer, startMcpServer } from "./mcp-server.ts";

let bench: AnthropicBench;
let server: McpServer;
const SECRET = "vault-secret-4f1c2e";

beforeAll(async () => {
  bench = await openAnthropic();
  server = await startMcpServer((authorization) => authorization === `Bearer ${SECRET}`);
});
afterAll(async () => {
  server.close();
  await bench.close();
});

describe("B6, I5: a vault's credential", () => {
  it("is sent to its MCP server and is nowhere else", async () => {
    const { url, seen } = server;
    const { id } = await makeSession(bench, {
      tools: DOCS_TOOLS,
      mcp_servers: [{ type: "url", name: "docs", url }],
    });
    const closed = await turn(bench, id, CALL_DOCS);
    expect(ofType(closed, "session.error").map(({ error }) => error.type)).toEqual([
      "mcp_authentication_failed_error",
    ]);

    const vault = await bench.beta.vaults.create({ display_name: "v" });
    const auth = { type: "static_bearer" as const, mcp_server_url: url, token: SECRET };
    await bench.beta.vaults.credentials.create(vault.id, { auth });
    await bench.beta.sessions.update(id, { vault_ids: [vault.id] } as never);
    const open = await turn(bench, id, CALL_DOCS, { shell: "env; cat ~/.scripted/mcp.json" });
    expect(JSON.stringify(ofType(open, "agent.mcp_tool_result"))).toContain("page 7");
    expect(seen.at(-1)).toBe(`Bearer ${SECRET}`);
    expect(JSON.stringify(await history(bench, id))).not.toContain(SECRET);
    expect(JSON.stringify(bench.lines)).not.toContain(SECRET);
    // No file of the server or of the sandbox has it.
    for (const folder of [bench.folder, bench.test.folder]) {
      const found = promisify(execFile)("grep", ["-rlaF", "--devices=skip", SECRET, folder]);
      await expect(found).rejects.toMatchObject({ code: 1 });
    }
  });
});
