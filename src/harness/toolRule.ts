import type { ToolSettings } from "../contract/index.ts";

/** What a session's rules say of a tool, by the name that all agents share; undefined where they say nothing. */
export function ruleOf(tools: ToolSettings | undefined, name: string): "allow" | "ask" | undefined {
  const rules = tools?.rules ?? {};
  const server = /^(mcp__.+?__)/.exec(name)?.[1];
  const names = server === undefined ? [name, "*"] : [name, `${server}*`];
  const known = names.find((candidate) => Object.hasOwn(rules, candidate));
  return known === undefined ? undefined : rules[known];
}

/** A native tool by the name that all agents share. */
export function commonToolName(name: string, kind?: unknown): string {
  if (name.startsWith("mcp__")) return name;
  const known = COMMON[name.toLowerCase()];
  if (known !== undefined) return known;
  if (kind === "execute") return "bash";
  if (kind === "edit") return "edit";
  if (kind === "read") return "read";
  if (kind === "fetch") return "web_fetch";
  return name;
}

const COMMON: Readonly<Record<string, string>> = {
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
  webfetch: "web_fetch",
  web_fetch: "web_fetch",
  websearch: "web_search",
  web_search: "web_search",
  google_web_search: "web_search",
};
