import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** An MCP server over HTTP with one tool and its own authorization. */
export interface McpServer {
  readonly url: string;
  /** The authorization of every request, accepted or not. */
  readonly seen: (string | undefined)[];
  close(): void;
}

export async function startMcpServer(
  opens: (authorization: string | undefined) => boolean,
): Promise<McpServer> {
  const seen: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    const { authorization } = request.headers;
    seen.push(authorization);
    if (!opens(authorization)) return void response.writeHead(401).end();
    let body = "";
    request.on("data", (chunk: Buffer) => (body += chunk.toString()));
    request.on("end", () => {
      if (request.method !== "POST") return response.writeHead(405).end();
      const { id, method } = (body === "" ? {} : JSON.parse(body)) as { id?: number; method?: string };
      if (id === undefined) return response.writeHead(202).end();
      const serverInfo = { name: "docs", version: "1" };
      const tool = { name: "find", description: "Finds a page.", inputSchema: { type: "object" } };
      const results: Record<string, unknown> = {
        initialize: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo },
        "tools/list": { tools: [tool] },
        "tools/call": { content: [{ type: "text", text: "page 7" }] },
      };
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ jsonrpc: "2.0", id, result: results[method ?? ""] ?? {} }));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    seen,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** The toolset of the server, without confirmations. */
export const DOCS_TOOLS: object[] = [
  { type: "agent_toolset_20260401" },
  {
    type: "mcp_toolset",
    mcp_server_name: "docs",
    default_config: { permission_policy: { type: "always_allow" } },
  },
];

export const CALL_DOCS: object = { mcp: { server: "docs", tool: "find", input: {} } };
