import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AnthropicBench, openAnthropic } from "./anthropicBench.ts";
import { history, makeSession, ofType, turn } from "./sessionBench.ts";

let bench: AnthropicBench;
let server: Server;
let url: string;
const SECRET = "vault-secret-4f1c2e";
const seen: (string | undefined)[] = [];

beforeAll(async () => {
  bench = await openAnthropic();
  // An MCP server that says which token it was shown, in its own way.
  server = createServer((request, response) => {
    const token = request.headers.authorization;
    seen.push(token);
    if (token !== `Bearer ${SECRET}`) return void response.writeHead(401).end();
    let body = "";
    request.on("data", (chunk: Buffer) => (body += chunk.toString()));
    request.on("end", () => {
      const { id, method } = (body === "" ? {} : JSON.parse(body)) as { id?: number; method?: string };
      if (id === undefined) return response.writeHead(202).end();
      const serverInfo = { name: "docs", version: "1" };
      const results: Record<string, unknown> = {
        initialize: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo },
        "tools/call": { content: [{ type: "text", text: "page 7" }] },
      };
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ jsonrpc: "2.0", id, result: results[method ?? ""] ?? {} }));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
});
afterAll(async () => {
  server.closeAllConnections();
  server.close();
  await bench.close();
});

describe("B6, I5: a vault's credential", () => {
  it("opens its MCP server, and is nowhere else", async () => {
    const toolset = {
      type: "mcp_toolset",
      mcp_server_name: "docs",
      default_config: { permission_policy: { type: "always_allow" } },
    };
    const { id } = await makeSession(bench, {
      tools: [{ type: "agent_toolset_20260401" }, toolset],
      mcp_servers: [{ type: "url", name: "docs", url }],
    });
    const call = { mcp: { server: "docs", tool: "find", input: {} } };
    const closed = await turn(bench, id, call);
    expect(ofType(closed, "session.error").map(({ error }) => error.type)).toEqual([
      "mcp_authentication_failed_error",
    ]);

    const vault = await bench.beta.vaults.create({ display_name: "v" });
    const auth = { type: "static_bearer" as const, mcp_server_url: url, token: SECRET };
    await bench.beta.vaults.credentials.create(vault.id, { auth });
    await bench.beta.sessions.update(id, { vault_ids: [vault.id] } as never);
    const open = await turn(bench, id, call, { shell: "env; cat ~/.scripted/mcp.json" });
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
