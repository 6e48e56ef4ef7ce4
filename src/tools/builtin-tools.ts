import type { CustomTool } from "./port.ts";

/** The built-in tools that an application can run in place of the agent, as the agent sees them. */
export const BUILTIN_TOOLS: readonly CustomTool[] = [
  tool(
    "bash",
    "Runs a command in a persistent bash shell: its folder and its variables stay from call to call.",
    {
      command: { type: "string", description: "The command to run." },
      restart: { type: "boolean", description: "Start the shell anew first." },
      timeout_ms: { type: "integer", description: "How long the command may take, in milliseconds." },
    },
  ),
  tool(
    "read",
    "Reads a text file. Paths are relative to the working folder.",
    {
      file_path: { type: "string" },
      view_range: {
        type: "array",
        items: { type: "integer" },
        description: "The first and the last line, counted from 1.",
      },
    },
    ["file_path"],
  ),
  tool(
    "write",
    "Writes a text file, and the folders that it needs.",
    { file_path: { type: "string" }, content: { type: "string" } },
    ["file_path", "content"],
  ),
  tool(
    "edit",
    "Replaces old_string by new_string in a file; old_string must occur once, unless replace_all is true.",
    {
      file_path: { type: "string" },
      old_string: { type: "string" },
      new_string: { type: "string" },
      replace_all: { type: "boolean" },
    },
    ["file_path", "old_string", "new_string"],
  ),
  tool(
    "glob",
    "Finds files by a glob pattern, the newest first.",
    { pattern: { type: "string" }, path: { type: "string", description: "The folder to look in." } },
    ["pattern"],
  ),
  tool(
    "grep",
    "Finds lines of files by a regular expression.",
    { pattern: { type: "string" }, path: { type: "string", description: "The file or folder to look in." } },
    ["pattern"],
  ),
];

function tool(
  name: string,
  description: string,
  properties: Record<string, object>,
  required: string[] = [],
): CustomTool {
  return { name, description, inputSchema: { type: "object", properties, required } };
}
