import type { ToolRule, ToolSettings } from "./session.ts";

/** The common name of an agent's tool, which a session's rules use. */
export function commonToolName(name: string, kind?: unknown): string {
  if (name.startsWith("mcp__")) return name;
  return COMMON.get(name.toLowerCase()) ?? BY_KIND.get(kind) ?? name;
}

/** The name of the tool server: the MCP server that gives agents the application's tools. */
export const TOOL_SERVER = "sluice";

/** The application's name of a tool of the tool server; undefined for any other tool. */
export function fromToolServerName(name: string): string | undefined {
  return name.startsWith(PREFIX) ? name.slice(PREFIX.length) : undefined;
}

/** The agents' name of an application's tool. */
export function toToolServerName(name: string): string {
  return `${PREFIX}${name}`;
}

const PREFIX = `mcp__${TOOL_SERVER}__`;

/** The old names of these exports, kept for applications. */
export {
  fromToolServerName as bridgedToolName,
  TOOL_SERVER as BRIDGE_SERVER,
  toToolServerName as toBridgedName,
};

const COMMON: ReadonlyMap<string, string> = new Map(
  Object.entries({
    shell: "bash",
    bash: "bash",
    exec_command: "bash",
    local_shell: "bash",
    run_shell_command: "bash",
    run_terminal_cmd: "bash",
    commandexecution: "bash",
    read: "read",
    read_file: "read",
    write: "write",
    write_file: "write",
    edit: "edit",
    replace: "edit",
    apply_patch: "edit",
    filechange: "edit",
    search_replace: "edit",
    glob: "glob",
    grep: "grep",
    grep_search: "grep",
    search_file_content: "grep",
    webfetch: "web_fetch",
    web_fetch: "web_fetch",
    websearch: "web_search",
    web_search: "web_search",
    google_web_search: "web_search",
  }),
);

/** Common names by the kind of a call, for agents whose calls have a title in place of the tool's name. */
const BY_KIND: ReadonlyMap<unknown, string> = new Map(
  Object.entries({
    execute: "bash",
    edit: "edit",
    read: "read",
    fetch: "web_fetch",
  }),
);

/** The session's rule for a tool, by the tool's common name; undefined where no rule names it. */
export function ruleOf(tools: ToolSettings | undefined, name: string): ToolRule | undefined {
  const rules = tools?.rules ?? {};
  const server = /^(mcp__.+?__)/.exec(name)?.[1];
  const names = server === undefined ? [name, "*"] : [name, `${server}*`];
  const known = names.find((candidate) => Object.hasOwn(rules, candidate));
  return known === undefined ? undefined : rules[known];
}
