import type { McpServer } from "../../contract/index.ts";

type RemoteMcpServer = Extract<McpServer, { url: string }>;
type LocalMcpServer = Exclude<McpServer, RemoteMcpServer>;

/** One CLI's form of an MCP server; undefined leaves a server out. */
export interface McpForm<T> {
  remote(server: RemoteMcpServer, name: string): T | undefined;
  local(server: LocalMcpServer, name: string): T | undefined;
  /** The CLI's reference to a variable of its own environment, for the variables that a server inherits. */
  reference?(variable: string): string;
}

/** A session's MCP servers by their names, in a CLI's own form. The values of inherited variables are never in it. */
export function toMcpServers<T>(
  servers: Readonly<Record<string, McpServer>> = {},
  form: McpForm<T>,
): Record<string, T> {
  const rendered = Object.entries(servers).flatMap(([name, server]) => {
    const entry =
      "url" in server ? form.remote(server, name) : form.local(withReferences(server, form), name);
    return entry === undefined ? [] : [[name, entry] as const];
  });
  return Object.fromEntries(rendered);
}

function withReferences<T>(server: LocalMcpServer, form: McpForm<T>): LocalMcpServer {
  if (form.reference === undefined) return server;
  const { inherit = [], ...rest } = server;
  const references = inherit.map((name) => [name, form.reference?.(name) ?? ""]);
  return { ...rest, env: { ...server.env, ...Object.fromEntries(references) } };
}

/** The log's name of an MCP tool, from the agent's `<server><separator><tool>`; undefined for any other tool. */
export function toMcpName(name: string, servers: readonly string[], separator: string): string | undefined {
  const known = servers
    .filter((server) => name.startsWith(`${server}${separator}`))
    .toSorted((a, b) => b.length - a.length)[0];
  return known === undefined ? undefined : `mcp__${known}__${name.slice(known.length + separator.length)}`;
}
