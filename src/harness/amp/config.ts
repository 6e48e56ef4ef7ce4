import type { PermissionMode, SessionSpec } from "../../contract/index.ts";
import { type McpForm, toMcpServers } from "../launch/mcp.ts";
import { EDIT_TOOLS, HARMLESS_TOOLS } from "./tools.ts";

/** `~/.config/amp/settings.json`. It holds the MCP servers, whose secrets must not be on the command line. */
export function toSettings(spec: SessionSpec, options: { gate: string }): Record<string, unknown> {
  const mode = spec.permissionMode ?? "default";
  return {
    "amp.updates.mode": "disabled",
    "amp.notifications.enabled": false,
    "amp.dangerouslyAllowAll": mode === "bypass",
    ...(mode === "bypass" ? {} : { "amp.permissions": toRules(mode, options.gate) }),
    ...(spec.mcp === undefined ? {} : { "amp.mcpServers": toMcpServers(spec.mcp, MCP_FORM) }),
  };
}

interface Rule {
  readonly tool: string;
  readonly action: "allow" | "reject" | "delegate";
  readonly to?: string;
}

/** The first matching rule decides. Without a terminal Amp's own `ask` refuses, so a program is asked instead. */
function toRules(mode: Exclude<PermissionMode, "bypass">, gate: string): Rule[] {
  const allowed = mode === "acceptEdits" ? [...HARMLESS_TOOLS, ...EDIT_TOOLS] : HARMLESS_TOOLS;
  const last: Rule =
    mode === "plan" ? { tool: "*", action: "reject" } : { tool: "*", action: "delegate", to: gate };
  return [...allowed.map((tool): Rule => ({ tool, action: "allow" })), last];
}

const MCP_FORM: McpForm<object> = {
  remote: ({ type, url, headers = {} }) => ({
    url,
    headers,
    ...(type === "sse" ? { transport: "sse" } : {}),
  }),
  local: ({ command, args = [], env }) => ({ command, args, env }),
  reference: (variable) => `\${${variable}}`,
};
