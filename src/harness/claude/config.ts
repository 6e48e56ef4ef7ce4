import { join } from "node:path";
import {
  TOOL_SERVER,
  type Launch,
  type SessionSpec,
  type ToolRule,
  type ToolSettings,
} from "../../contract/index.ts";
import { ruleOf } from "../../contract/tool-rule.ts";
import { type McpForm, toMcpServers } from "../launch/mcp.ts";

/** Our folder in the agent's home, beside those of the CLI itself. */
export const FOLDER = ".sluice/claude";

type Files = NonNullable<Launch["files"]>;

export function toSettingsFiles(settings: object): Files {
  if (Object.keys(settings).length === 0) return [];
  return [{ path: `${FOLDER}/settings.json`, content: JSON.stringify(settings), mode: 0o600 }];
}

export function toPromptFiles({ systemPrompt, instructions }: SessionSpec): Files {
  const texts = { "system-prompt.md": systemPrompt, "instructions.md": instructions };
  return Object.entries(texts).flatMap(([name, content]) =>
    content === undefined || content === "" ? [] : [{ path: `${FOLDER}/${name}`, content, mode: 0o600 }],
  );
}

/** Headers and environments of MCP servers hold secrets. */
export function toMcpFiles({ mcp }: SessionSpec): Files {
  if (mcp === undefined || Object.keys(mcp).length === 0) return [];
  return [
    {
      path: `${FOLDER}/mcp.json`,
      content: JSON.stringify({ mcpServers: toMcpServers(mcp, MCP_FORM) }),
      mode: 0o600,
    },
  ];
}

const MCP_FORM: McpForm<unknown> = {
  remote: (server) => server,
  local: ({ timeoutMs: timeout, ...rest }) => ({ ...rest, ...(timeout === undefined ? {} : { timeout }) }),
  reference: (variable) => `\${${variable}}`,
};

/**
 * The key in a file, and the helper command by which the CLI reads it. Programs that the agent starts do not inherit
 * the key in their environment. The file hides nothing: the agent and its programs can read it.
 */
export function toKeyFiles(
  env: Readonly<Record<string, string>>,
  home: string,
): { env: Record<string, string>; settings: object; files: NonNullable<Launch["files"]> } {
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
    // A denied server would include its allowed tools.
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
