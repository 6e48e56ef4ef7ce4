import { isRecord } from "../rpc.ts";

/** OpenCode calls an MCP tool `<server>_<tool>`, with every unusual letter of both replaced. */
export function mcpPrefix(server: string): string {
  return `${server.replaceAll(/[^a-zA-Z0-9_-]/g, "_")}_`;
}

/** A tool's name as every reader knows it. What the model called wrongly keeps the name that it was called by. */
export function toToolName(tool: string, input: unknown, servers: Readonly<Record<string, string>>): string {
  if (tool === "invalid" && isRecord(input) && typeof input["tool"] === "string") return input["tool"];
  let longest = "";
  for (const prefix of Object.keys(servers)) {
    if (tool.startsWith(prefix) && prefix.length > longest.length) longest = prefix;
  }
  return longest === "" ? tool : `mcp__${servers[longest]}__${tool.slice(longest.length)}`;
}
