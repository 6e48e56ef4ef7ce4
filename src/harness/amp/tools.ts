import type { PlanEntry } from "../../contract/index.ts";
import { isRecord } from "../rpc.ts";
import type { PermissionMetadata } from "../scribe.ts";

/** What only looks, plans or hands work to a sub-agent whose own calls are asked about. */
export const HARMLESS_TOOLS = [
  "Read",
  "Grep",
  "glob",
  "finder",
  "find_thread",
  "read_thread",
  "read_web_page",
  "read_mcp_resource",
  "web_search",
  "librarian",
  "look_at",
  "mermaid",
  "oracle",
  "skill",
  "Task",
  "task_list",
  "todo_read",
  "todo_write",
] as const;

export const EDIT_TOOLS = [
  "create_file",
  "edit_file",
  "undo_edit",
  "apply_patch",
  "delete_file",
  "format_file",
] as const;

export function isEdit(name: string): boolean {
  return (EDIT_TOOLS as readonly string[]).includes(name);
}

export function kindOf(name: string): PermissionMetadata["kind"] {
  if (/^(Bash|shell|shell_command)$/.test(name)) return "execute";
  if (isEdit(name)) return "edit";
  if (name.startsWith("mcp__")) return "mcp";
  if (/^(read_web_page|web_search)$/.test(name)) return "fetch";
  if (/^(Read|Grep|glob|finder|look_at)$/.test(name)) return "read";
  return "other";
}

/** The file that a call is about. */
export function pathOf(name: string, input: Readonly<Record<string, unknown>>): string | undefined {
  if (name !== "Read" && !isEdit(name)) return undefined;
  const path = input["path"] ?? input["file_path"];
  return typeof path === "string" ? path : undefined;
}

/** The whole list of a `todo_write`; undefined where the call is none. */
export function planOf(name: string, input: unknown): PlanEntry[] | undefined {
  if (name !== "todo_write" || !isRecord(input) || !Array.isArray(input["todos"])) return undefined;
  return input["todos"].filter(isRecord).map((todo) => ({
    content: String(todo["content"] ?? ""),
    status: STATUSES[String(todo["status"])] ?? "pending",
    priority: PRIORITIES[String(todo["priority"])] ?? "medium",
  }));
}

const STATUSES: Readonly<Record<string, PlanEntry["status"]>> = {
  "in-progress": "in_progress",
  in_progress: "in_progress",
  completed: "completed",
};

const PRIORITIES: Readonly<Record<string, PlanEntry["priority"]>> = { high: "high", low: "low" };
