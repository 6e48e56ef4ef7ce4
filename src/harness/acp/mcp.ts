import type { McpServer } from "../../contract/index.ts";

/** An MCP server as ACP's `session/new` names it. */
export type AcpMcpServer = Readonly<Record<string, unknown>>;

/** What a server inherits has no words here, and its value must not be in what is said: it is the agent that hands it on. */
export function toMcpServers(servers: Readonly<Record<string, McpServer>>): AcpMcpServer[] {
  return Object.entries(servers).map(([name, server]) => {
    if ("url" in server) {
      return { type: server.type, name, url: server.url, headers: toPairs(server.headers) };
    }
    return { name, command: server.command, args: server.args ?? [], env: toPairs(server.env) };
  });
}

/** A tool's name as every agent's log has it, where the agent glued its server's name to it. */
export function toMcpName(name: string, servers: readonly string[], glue: string): string | undefined {
  const known = servers
    .filter((server) => name.startsWith(`${server}${glue}`))
    .toSorted((a, b) => b.length - a.length)[0];
  return known === undefined ? undefined : `mcp__${known}__${name.slice(known.length + glue.length)}`;
}

function toPairs(map: Readonly<Record<string, string>> | undefined): { name: string; value: string }[] {
  return Object.entries(map ?? {}).map(([name, value]) => ({ name, value }));
}
