import { own } from "../../contract/ownKeys.ts";
import { bridgedToolName, commonToolName } from "../../contract/index.ts";
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
  const own = bridgedToolName(name);
  if (own !== undefined) return { kind: "toolset", name: own, input: fields };
  const [, server, tool] = /^mcp__(.+?)__(.+)$/.exec(name) ?? [];
  if (server !== undefined && tool !== undefined) return { kind: "mcp", name: tool, server, input: fields };
  const common = commonToolName(name);
  return {
    kind: "toolset",
    name: common,
    input: TOOLSET.has(common) ? toToolsetInput(common, fields) : fields,
  };
}

const TOOLSET: ReadonlySet<string> = new Set(TOOLSET_TOOLS);

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
  return Object.fromEntries(
    Object.entries(fields).map(([key, value]) => [own(FILE_KEYS, key) ?? key, value]),
  );
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

export function toFields(input: unknown): Record<string, unknown> {
  if (typeof input === "object" && input !== null && !Array.isArray(input))
    return input as Record<string, unknown>;
  return input === undefined || input === null ? {} : { value: input };
}
