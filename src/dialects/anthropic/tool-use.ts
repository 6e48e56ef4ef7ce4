import { TOOLSET_TOOLS } from "./resources/tools.ts";

/** A tool call in the words of this dialect: the toolset's own names and inputs where a native tool is one of them. */
export interface ToolUse {
  readonly kind: "toolset" | "mcp";
  readonly name: string;
  readonly server?: string;
  readonly input: Record<string, unknown>;
}

export function toToolUse(name: string, input: unknown): ToolUse {
  const fields = toFields(input);
  const [, server, tool] = /^mcp__(.+?)__(.+)$/.exec(name) ?? [];
  if (server !== undefined && tool !== undefined) return { kind: "mcp", name: tool, server, input: fields };
  const common = toToolName(name);
  return {
    kind: "toolset",
    name: common,
    input: TOOLSET.has(common) ? toToolsetInput(common, fields) : fields,
  };
}

/** A native tool by the toolset's name, else by its own. */
export function toToolName(name: string): string {
  return COMMON[name.toLowerCase()] ?? name;
}

export function isToolsetTool(name: string): boolean {
  return TOOLSET.has(toToolName(name));
}

const TOOLSET: ReadonlySet<string> = new Set(TOOLSET_TOOLS);

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
};

const FILE_KEYS: Readonly<Record<string, string>> = {
  path: "file_path",
  filePath: "file_path",
  absolute_path: "file_path",
  target_file: "file_path",
  old: "old_string",
  oldString: "old_string",
  new: "new_string",
  newString: "new_string",
  replaceAll: "replace_all",
};

function toToolsetInput(tool: string, fields: Record<string, unknown>): Record<string, unknown> {
  if (tool === "bash") return toCommand(fields);
  if (tool !== "read" && tool !== "write" && tool !== "edit") return fields;
  return Object.fromEntries(Object.entries(fields).map(([key, value]) => [FILE_KEYS[key] ?? key, value]));
}

/** Some CLIs give the words of a command, the toolset takes its text. */
function toCommand({ command, timeout, ...rest }: Record<string, unknown>): Record<string, unknown> {
  const text = Array.isArray(command) ? command.map(String).join(" ") : command;
  return {
    ...(text === undefined ? {} : { command: text }),
    ...(timeout === undefined ? {} : { timeout_ms: timeout }),
    ...rest,
  };
}

function toFields(input: unknown): Record<string, unknown> {
  if (typeof input === "object" && input !== null && !Array.isArray(input))
    return input as Record<string, unknown>;
  return input === undefined || input === null ? {} : { value: input };
}
