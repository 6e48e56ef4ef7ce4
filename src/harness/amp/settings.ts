import type { McpServer, PermissionMode, SessionSpec } from "../../contract/index.ts";
import { EDIT_TOOLS, HARMLESS_TOOLS } from "./tools.ts";

/** `~/.config/amp/settings.json`. MCP servers go here and not on the command line: they hold secrets. */
export function toSettings(spec: SessionSpec, options: { gate: string }): Record<string, unknown> {
  const mode = spec.permissionMode ?? "default";
  return {
    "amp.updates.mode": "disabled",
    "amp.notifications.enabled": false,
    "amp.dangerouslyAllowAll": mode === "bypass",
    ...(mode === "bypass" ? {} : { "amp.permissions": toRules(mode, options.gate) }),
    ...(spec.mcp === undefined ? {} : { "amp.mcpServers": toServers(spec.mcp) }),
  };
}

interface Rule {
  readonly tool: string;
  readonly action: "allow" | "reject" | "delegate";
  readonly to?: string;
}

/** The first rule that matches decides. Without a terminal Amp's own `ask` is a refusal, so a program is asked instead. */
function toRules(mode: Exclude<PermissionMode, "bypass">, gate: string): Rule[] {
  const allowed = mode === "acceptEdits" ? [...HARMLESS_TOOLS, ...EDIT_TOOLS] : HARMLESS_TOOLS;
  const last: Rule =
    mode === "plan" ? { tool: "*", action: "reject" } : { tool: "*", action: "delegate", to: gate };
  return [...allowed.map((tool): Rule => ({ tool, action: "allow" })), last];
}

function toServers(servers: Readonly<Record<string, McpServer>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(servers).map(([name, server]) => [name, toServer(server)]));
}

function toServer(server: McpServer): object {
  if (!("url" in server)) {
    const { command, args = [], inherit = [] } = server;
    const env = { ...server.env, ...Object.fromEntries(inherit.map((name) => [name, `\${${name}}`])) };
    return { command, args, env };
  }
  const { type, url, headers = {} } = server;
  return { url, headers, ...(type === "sse" ? { transport: "sse" } : {}) };
}
