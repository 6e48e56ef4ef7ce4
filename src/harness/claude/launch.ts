import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Launch, McpServer, SessionSpec } from "../../contract/index.ts";
import { type Cli, detectCli, requireCli } from "../cli.ts";
import { mcpHosts } from "../hosts.ts";
import type { Detected, LaunchContext } from "../port.ts";
import { packageRoot } from "../program/npm-package.ts";
import { toModelHosts } from "./hosts.ts";
import { toKeyFiles } from "./key.ts";
import { toPermissions } from "./permissions.ts";
import { skillFiles } from "../skills.ts";

export const SKILLS_FOLDER = ".claude/skills";

const INSTALL = "npm install -g @anthropic-ai/claude-code";

/** Ours, in the agent's home; what the CLI keeps there itself is left alone. */
const FOLDER = ".sluice/claude";

/** How Claude Code is started: headless, in stream-json both ways, asking its host. */
export function launch(spec: SessionSpec, context: LaunchContext): Launch {
  const { path: program, needs } = findProgram(context);
  const given: Readonly<Record<string, string>> = { ...context.env, ...spec.env };
  const key = toKeyFiles(given, { folder: FOLDER, home: context.home });
  const files = [
    ...key.files,
    ...toSettingsFiles({ ...key.settings, ...toPermissions(spec.tools) }),
    ...toPromptFiles(spec),
    ...toMcpFiles(spec),
    ...skillFiles(SKILLS_FOLDER, spec),
  ];
  const placed = (name: string): string[] => {
    const path = `${FOLDER}/${name}`;
    return files.some((file) => file.path === path) ? [join(context.home, path)] : [];
  };
  const argv = [
    program,
    "-p",
    "--output-format=stream-json",
    "--input-format=stream-json",
    "--verbose",
    "--include-partial-messages",
    "--permission-prompt-tool=stdio",
    ...toModeArguments(spec),
    ...(spec.model === undefined ? [] : [`--model=${spec.model}`]),
    ...(spec.variant === undefined ? [] : [`--effort=${spec.variant}`]),
    ...placed("settings.json").map((path) => `--settings=${path}`),
    ...placed("mcp.json").map((path) => `--mcp-config=${path}`),
    ...placed("system-prompt.md").map((path) => `--system-prompt-file=${path}`),
    ...placed("instructions.md").map((path) => `--append-system-prompt-file=${path}`),
    ...(context.resume === undefined ? [] : [`--resume=${context.resume}`]),
    ...(context.resume !== undefined && context.fork === true ? ["--fork-session"] : []),
  ];
  return {
    argv,
    env: { ...QUIET, ...toRetries(spec), ...key.env, HOME: context.home },
    needs,
    hosts: [...toModelHosts(given), ...mcpHosts(spec)],
    files,
  };
}

export function detect(options?: { withVersion?: boolean }): Promise<Detected> {
  return detectCli("claude", { install: INSTALL, ...options });
}

/** No updates, no telemetry; as root it refuses to skip permissions unless it is told that it is in a sandbox. */
const QUIET = {
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
  DISABLE_AUTOUPDATER: "1",
  DISABLE_TELEMETRY: "1",
  DISABLE_ERROR_REPORTING: "1",
  IS_SANDBOX: "1",
};

function findProgram(context: LaunchContext): Cli {
  const cli = requireCli("claude", { title: "Claude Code", install: INSTALL, context });
  const root = packageRoot(cli.path);
  if (root === undefined) return cli;
  // Installed without install scripts, the launcher is a Node program that starts the real one.
  const native = join(dirname(root), `claude-code-${process.platform}-${process.arch}`, "claude");
  return /\.[cm]?js$/.test(cli.path) && existsSync(native) ? { path: native, needs: [native] } : cli;
}

function toModeArguments({ permissionMode = "default", agentMode }: SessionSpec): string[] {
  if (permissionMode === "bypass") return ["--dangerously-skip-permissions"];
  if (permissionMode === "plan" || agentMode === "plan") return ["--permission-mode=plan"];
  return permissionMode === "acceptEdits" ? ["--permission-mode=acceptEdits"] : [];
}

function toRetries({ retries }: SessionSpec): Record<string, string> {
  return retries === undefined ? {} : { CLAUDE_CODE_MAX_RETRIES: String(retries.tries - 1) };
}

type Files = NonNullable<Launch["files"]>;

function toSettingsFiles(settings: object): Files {
  if (Object.keys(settings).length === 0) return [];
  return [{ path: `${FOLDER}/settings.json`, content: JSON.stringify(settings), mode: 0o600 }];
}

function toPromptFiles({ systemPrompt, instructions }: SessionSpec): Files {
  const texts = { "system-prompt.md": systemPrompt, "instructions.md": instructions };
  return Object.entries(texts).flatMap(([name, content]) =>
    content === undefined || content === "" ? [] : [{ path: `${FOLDER}/${name}`, content, mode: 0o600 }],
  );
}

/** Headers and environments of MCP servers hold secrets. */
function toMcpFiles({ mcp }: SessionSpec): Files {
  if (mcp === undefined || Object.keys(mcp).length === 0) return [];
  return [
    { path: `${FOLDER}/mcp.json`, content: JSON.stringify({ mcpServers: toMcpServers(mcp) }), mode: 0o600 },
  ];
}

function toMcpServers(servers: NonNullable<SessionSpec["mcp"]>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(servers).map(([name, server]) => [name, toMcpServer(server)]));
}

/** What a server inherits is named here, and its value put in by the CLI. */
function toMcpServer(server: McpServer): unknown {
  if ("url" in server) return server;
  const { inherit = [], timeoutMs: timeout, ...rest } = server;
  const env = { ...server.env, ...Object.fromEntries(inherit.map((name) => [name, `\${${name}}`])) };
  return { ...rest, env, ...(timeout === undefined ? {} : { timeout }) };
}
