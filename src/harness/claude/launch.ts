import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import {
  type Launch,
  type SessionSpec,
  TOOL_SERVER,
  type ToolRule,
  type ToolSettings,
} from "../../contract/index.ts";
import { ruleOf } from "../../contract/tool-names.ts";
import { type Cli, defineCli } from "../launch/cli.ts";
import { skillFiles } from "../launch/files.ts";
import { type McpForm, toMcpServers } from "../launch/mcp.ts";
import { packageRoot } from "../launch/npm-package.ts";
import { mcpHosts } from "../launch/provider.ts";
import type { LaunchContext } from "../port.ts";
import { toModelHosts } from "./provider.ts";

export const SKILLS_FOLDER = ".claude/skills";

const CLI = defineCli("claude", {
  title: "Claude Code",
  install: "npm install -g @anthropic-ai/claude-code",
});
export const { detect } = CLI;

/** Starts Claude Code headless, with stream-json both ways and permission requests to its host. */
export function launch(spec: SessionSpec, context: LaunchContext): Launch {
  const { path: program, needs } = findProgram(context);
  const given: Readonly<Record<string, string>> = { ...context.env, ...spec.env };
  const key = toKeyFiles(given, context.home);
  const files = [
    ...key.files,
    ...toFiles(spec, { ...key.settings, ...toPermissions(spec.tools) }),
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

/** No updates, no telemetry. As root the CLI skips permissions only in a sandbox. */
const QUIET = {
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
  DISABLE_AUTOUPDATER: "1",
  DISABLE_TELEMETRY: "1",
  DISABLE_ERROR_REPORTING: "1",
  IS_SANDBOX: "1",
};

function findProgram(context: LaunchContext): Cli {
  const cli = CLI.require(context);
  const root = context.programs ? undefined : packageRoot(cli.path);
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

/** Our folder in the agent's home, beside those of the CLI itself. */
const FOLDER = ".sluice/claude";

type Files = NonNullable<Launch["files"]>;

function toFiles({ systemPrompt = "", instructions = "", mcp = {} }: SessionSpec, settings: object): Files {
  const mcpServers = toMcpServers(mcp, MCP_FORM);
  const texts = {
    "settings.json": Object.keys(settings).length === 0 ? "" : JSON.stringify(settings),
    "system-prompt.md": systemPrompt,
    "instructions.md": instructions,
    // Headers and environments of MCP servers hold secrets.
    "mcp.json": Object.keys(mcpServers).length === 0 ? "" : JSON.stringify({ mcpServers }),
  };
  return Object.entries(texts).flatMap(([name, content]) =>
    content === "" ? [] : [{ path: `${FOLDER}/${name}`, content, mode: 0o600 }],
  );
}

const MCP_FORM: McpForm<unknown> = {
  remote: (server) => server,
  local: ({ timeoutMs: timeout, ...rest }) => ({ ...rest, ...(timeout === undefined ? {} : { timeout }) }),
  reference: (variable) => `\${${variable}}`,
};

/**
 * The key in a file, and the command by which the CLI reads it. So programs that the agent starts do not inherit the
 * key in their environment. They can still read the file.
 */
function toKeyFiles(
  env: Readonly<Record<string, string>>,
  home: string,
): { env: Record<string, string>; settings: object; files: Files } {
  const { ANTHROPIC_API_KEY: key, ...rest } = env;
  if (key === undefined || key === "") return { env: rest, settings: {}, files: [] };
  const path = `${FOLDER}/key`;
  const settings = { apiKeyHelper: `cat ${quote(join(home, path))}` };
  return { env: rest, settings, files: [{ path, content: key, mode: 0o600 }] };
}

function quote(path: string): string {
  return `'${path.replaceAll("'", `'\\''`)}'`;
}

/**
 * A session's rules under the names of Claude's tools. Without a rule Claude asks for some tools only. It does not offer
 * a denied tool to the model. An allowed tool needs no rule: the engine answers its requests at once. A tool that the
 * application runs is denied here, and offered by the tool server.
 */
export function toPermissions(
  tools: ToolSettings | undefined,
): { permissions: { ask: string[]; deny: string[] } } | object {
  const rules = tools?.rules ?? {};
  const permissions: Record<"ask" | "deny", string[]> = { ask: [], deny: [] };
  const add = (rule: ToolRule | undefined, ...names: readonly string[]): void => {
    if (rule === "ask" || rule === "deny") permissions[rule].push(...names);
  };
  for (const [name, native] of NATIVE) {
    const isServed = tools?.client?.includes(name) === true && !name.startsWith("web_");
    add(isServed ? "deny" : ruleOf(tools, name), ...native);
    if (isServed) add(ruleOf(tools, name), `mcp__${TOOL_SERVER}__${name}`);
  }
  for (const [name, rule] of Object.entries(rules)) {
    if (!name.startsWith("mcp__")) continue;
    if (!name.endsWith("__*")) add(rule, name);
    // To deny the whole server would deny its allowed tools too.
    else add(rule === "deny" && hasExceptions(rules, name) ? "ask" : rule, name.slice(0, -3));
  }
  return permissions.ask.length + permissions.deny.length === 0 ? {} : { permissions };
}

const NATIVE: readonly (readonly [string, readonly string[]])[] = [
  ["bash", ["Bash"]],
  ["read", ["Read"]],
  ["write", ["Write"]],
  ["edit", ["Edit", "NotebookEdit"]],
  ["glob", ["Glob"]],
  ["grep", ["Grep"]],
  ["web_fetch", ["WebFetch"]],
  ["web_search", ["WebSearch"]],
];

function hasExceptions(rules: NonNullable<ToolSettings["rules"]>, all: string): boolean {
  const prefix = all.slice(0, -1);
  return Object.entries(rules).some(
    ([name, rule]) => name !== all && name.startsWith(prefix) && rule !== "deny",
  );
}
