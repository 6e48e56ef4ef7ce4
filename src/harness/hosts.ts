import type { SessionSpec } from "../contract/index.ts";

/** The host of a base URL, as a sandbox opens the way to it; loopback with its port. */
export function hostOf(url: string | undefined): string[] {
  if (url === undefined || !URL.canParse(url)) return [];
  const { hostname, port, protocol } = new URL(url);
  return [`${hostname}:${port || (protocol === "https:" ? 443 : 80)}`];
}

/** Where the MCP servers of a session are, so that an isolated agent reaches them. */
export function mcpHosts(spec: SessionSpec): string[] {
  return Object.values(spec.mcp ?? {}).flatMap((server) => ("url" in server ? hostOf(server.url) : []));
}
