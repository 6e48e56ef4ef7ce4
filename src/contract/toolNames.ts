/** A native tool by the name that all agents share: the one that a session's rules know it by. */
export function commonToolName(name: string, kind?: unknown): string {
  if (name.startsWith("mcp__")) return name;
  return COMMON.get(name.toLowerCase()) ?? BY_KIND.get(kind) ?? name;
}

/** The name of the MCP server through which an agent calls its application's tools. */
export const BRIDGE_SERVER = "sluice";

/** The application's own name of a tool that an agent calls through the bridge; undefined of every other tool. */
export function bridgedToolName(name: string): string | undefined {
  return name.startsWith(BRIDGE_PREFIX) ? name.slice(BRIDGE_PREFIX.length) : undefined;
}

/** How agents call a tool of the bridge. */
export function toBridgedName(name: string): string {
  return `${BRIDGE_PREFIX}${name}`;
}

const BRIDGE_PREFIX = `mcp__${BRIDGE_SERVER}__`;

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

/** For agents that say of what kind a call is, and call it by its title. */
const BY_KIND: ReadonlyMap<unknown, string> = new Map(
  Object.entries({
    execute: "bash",
    edit: "edit",
    read: "read",
    fetch: "web_fetch",
  }),
);
