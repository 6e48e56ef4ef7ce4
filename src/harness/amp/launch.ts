import { dirname, join } from "node:path";
import { type Launch, type PermissionMode, type SessionSpec, SluiceError } from "../../contract/index.ts";
import { defineCli, nodeOf, ownPath } from "../launch/cli.ts";
import { findOwnProgram } from "../launch/executable.ts";
import { skillFiles } from "../launch/files.ts";
import { type McpForm, toMcpServers } from "../launch/mcp.ts";
import { hostOf, isText, mcpHosts, parseLogin } from "../launch/provider.ts";
import type { Choices, Credential, LaunchContext, LentLogin } from "../port.ts";
import { EDIT_TOOLS, HARMLESS_TOOLS } from "./tools.ts";

export const SKILLS_FOLDER = ".config/agents/skills";

const CLI = defineCli("amp", { title: "Amp", install: "npm install -g @ampcode/cli" });
export const { detect } = CLI;
const GATE = "sluice-amp-gate";
const GATE_FOLDER = ".sluice/amp";
const CONFIG = ".config/amp";

/** Amp's mode picks both model and effort. An older CLI has other names for them. */
export const choices: Choices = {
  modes: ["default", "smart", "rush", "deep"],
  variants: ["low", "medium", "high", "ultra"],
};

export const credentials: readonly Credential[] = [
  { env: "AMP_API_KEY" },
  { file: ".local/share/amp/secrets.json", lend: lendLogin },
];

/** Starts Amp behind the gate, which carries Amp's permission requests and our interrupts. */
export function launch(spec: SessionSpec, context: LaunchContext): Launch {
  const { resume, home } = context;
  if (context.fork)
    throw new SluiceError("capability_missing", "Amp cannot fork a thread; start a new session instead.");
  const cli = CLI.require(context);
  const gate = ownPath(join(dirname(findOwnProgram().path), "amp-gate.js"), context);
  const node = nodeOf(context);
  const folder = join(home, GATE_FOLDER);
  return {
    argv: [
      node,
      gate,
      "run",
      folder,
      cli.path,
      ...(resume === undefined ? [] : ["threads", "continue", resume]),
      "--execute",
      "--stream-json",
      "--stream-json-input",
      "--stream-json-thinking",
      // An archived thread cannot be continued.
      "--no-archive-after-execute",
      ...modeOf(spec),
    ],
    env: { ...spec.env, ...context.env, HOME: home, AMP_SKIP_UPDATE_CHECK: "1" },
    needs: [node, gate, ...cli.needs],
    hosts: [...hostsOf(spec.env?.["AMP_URL"] ?? context.env?.["AMP_URL"]), ...mcpHosts(spec)],
    files: filesOf(spec, gateScript(folder, [node, gate])),
  };
}

/** Amp chooses the model: it has no flag for a session's `model`. */
function modeOf({ agentMode, variant }: SessionSpec): string[] {
  const mode = variant ?? (agentMode === "default" ? undefined : agentMode);
  return mode === undefined ? [] : ["--mode", mode];
}

function filesOf(spec: SessionSpec, script: string): NonNullable<Launch["files"]> {
  const words = [spec.systemPrompt, spec.instructions].filter((text) => text !== undefined).join("\n\n");
  return [
    // The settings hold headers and environments of MCP servers.
    {
      path: `${CONFIG}/settings.json`,
      content: JSON.stringify(toSettings(spec, { gate: GATE })),
      mode: 0o600,
    },
    { path: `${GATE_FOLDER}/${GATE}`, content: script, mode: 0o700 },
    ...(words === "" ? [] : [{ path: `${CONFIG}/AGENTS.md`, content: words, mode: 0o600 }]),
    ...skillFiles(SKILLS_FOLDER, spec),
  ];
}

/** The program of Amp's permission rule, which gets no arguments. */
function gateScript(folder: string, program: readonly string[]): string {
  const words = [...program, "ask", folder].map((word) => `'${word.replaceAll("'", "'\\''")}'`);
  return `#!/bin/sh\nexec ${words.join(" ")}\n`;
}

/** `~/.config/amp/settings.json`. It holds the MCP servers, whose secrets must not be on the command line. */
export function toSettings(spec: SessionSpec, { gate }: { gate: string }): Record<string, unknown> {
  const mode = spec.permissionMode ?? "default";
  return {
    "amp.updates.mode": "disabled",
    "amp.notifications.enabled": false,
    "amp.dangerouslyAllowAll": mode === "bypass",
    "amp.permissions": mode === "bypass" ? undefined : toRules(mode, gate),
    "amp.mcpServers": spec.mcp && toMcpServers(spec.mcp, MCP_FORM),
  };
}

interface Rule {
  readonly tool: string;
  readonly action: "allow" | "reject" | "delegate";
  readonly to?: string;
}

/**
 * Amp's permission rules; the first that matches decides. Amp's own `ask` refuses without a terminal, so the rule asks
 * a program.
 */
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
    transport: type === "sse" ? type : undefined,
  }),
  local: ({ command, args = [], env }) => ({ command, args, env }),
  reference: (variable) => `\${${variable}}`,
};

const OWN_URL = "https://ampcode.com/";

/** `.local/share/amp/secrets.json`: keys by server. The session gets the key of its own server. */
export function lendLogin(content: string, { env }: SessionSpec): LentLogin | undefined {
  const url = (env?.["AMP_URL"] ?? OWN_URL).replace(/\/*$/, "");
  const keys = Object.entries(parseLogin(content) ?? {});
  const found = keys.find(([name, key]) => isText(key) && name.replace(/\/*$/, "") === `apiKey@${url}`);
  return found && { content: JSON.stringify(Object.fromEntries([found])) };
}

function hostsOf(url: string | undefined): string[] {
  return url === undefined ? ["ampcode.com", "*.ampcode.com"] : hostOf(url);
}
