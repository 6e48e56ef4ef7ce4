import type { McpServer, SessionSpec } from "../../contract/index.ts";
import type { Sandbox } from "../../sandbox/port.ts";
import type { ToolAccess } from "../../tools/index.ts";

/** The access to the tool server, as processes of the sandbox see it. */
export async function reachTools(sandbox: Pick<Sandbox, "reach">, access: ToolAccess): Promise<ToolAccess> {
  if (!sandbox.reach) return access;
  const url = new URL(access.url);
  const host = await sandbox.reach("tools", Number(url.port));
  return { ...access, url: access.url.replace(url.host, host), host };
}

/** The spec with the MCP relay's addresses, as processes of the sandbox see them. `plain` is the spec without relay. */
export async function reachRelay(
  sandbox: Pick<Sandbox, "reach">,
  plain: SessionSpec,
  equipped: SessionSpec,
): Promise<SessionSpec> {
  if (!sandbox.reach || equipped.mcp === undefined || equipped.mcp === plain.mcp) return equipped;
  const entries: [string, McpServer][] = [];
  for (const [name, server] of Object.entries(equipped.mcp)) {
    const isRelayed = "url" in server && server !== plain.mcp?.[name];
    entries.push([name, isRelayed ? { ...server, url: await reachUrl(sandbox, server.url) } : server]);
  }
  return { ...equipped, mcp: Object.fromEntries(entries) };
}

async function reachUrl(sandbox: Pick<Sandbox, "reach">, text: string): Promise<string> {
  const url = new URL(text);
  if (!sandbox.reach || url.hostname !== "127.0.0.1") return text;
  return text.replace(url.host, await sandbox.reach("relay", Number(url.port)));
}
