import type { ContentPart, PlanEntry } from "../../contract/index.ts";
import { exitPart, imagePart } from "../content-part.ts";
import { isRecord, parseRecord } from "../fields.ts";
import type { PermissionMetadata, ToolOutcome } from "../scribe.ts";

/** Tools that only read or plan, or give work to a sub-agent, which asks for its own calls. */
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

function isEdit(name: string): boolean {
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

/** The plan in a call of `todo_write`; undefined for any other call. */
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

/** The outcome of a `tool_result` block: a text, or the JSON text of Amp's own tools. */
export function toOutcome(
  call: { name: string; input: string } | undefined,
  block: Readonly<Record<string, unknown>>,
): ToolOutcome {
  const { text, images } = readContent(block["content"]);
  const answer = recordIn(text);
  const exitCode = answer?.["exitCode"] ?? answer?.["exit_code"];
  const failed = block["is_error"] === true || (typeof exitCode === "number" && exitCode !== 0);
  const file = failed ? undefined : fileOf(call, answer, text);
  const content = [...images, ...(file ? [file] : []), ...exitPart(exitCode)];
  const output = typeof answer?.["output"] === "string" ? answer["output"] : text;
  return { output, failed, content };
}

function readContent(content: unknown): { text: string; images: ContentPart[] } {
  if (typeof content === "string") return { text: content, images: [] };
  if (!Array.isArray(content))
    return { text: content === undefined ? "" : JSON.stringify(content), images: [] };
  const texts: string[] = [];
  const images: ContentPart[] = [];
  for (const part of content) {
    if (!isRecord(part)) continue;
    const image = toImage(part);
    if (image) images.push(image);
    else texts.push(typeof part["text"] === "string" ? part["text"] : JSON.stringify(part));
  }
  return { text: texts.join("\n"), images };
}

function toImage({ type, source }: Readonly<Record<string, unknown>>): ContentPart | undefined {
  if (type !== "image" || !isRecord(source)) return undefined;
  const { media_type: media, data, url } = source;
  const mime = typeof media === "string" ? media : "image/png";
  if (typeof data === "string") return imagePart(data, mime);
  return typeof url === "string" ? { type: "image", path: url, mime } : undefined;
}

function fileOf(
  call: { name: string; input: string } | undefined,
  answer: Readonly<Record<string, unknown>> | undefined,
  text: string,
): ContentPart | undefined {
  const path = call && pathOf(call.name, recordIn(call.input) ?? {});
  if (!call || path === undefined) return undefined;
  if (call.name === "Read") return { type: "file_ref", path, action: "read" };
  if (!isEdit(call.name)) return undefined;
  const diff = typeof answer?.["diff"] === "string" ? answer["diff"] : text;
  const unfenced = /```diff\n([\s\S]*?)\n?```/.exec(diff)?.[1] ?? diff;
  if (/^@@ /m.test(unfenced)) return { type: "file_ref", path, action: "patch", diff: unfenced };
  return { type: "file_ref", path, action: call.name === "create_file" ? "write" : "patch" };
}

/** The JSON object in a text. Most outputs of tools are no JSON, and are not parsed. */
function recordIn(text: string): Record<string, unknown> | undefined {
  return text.startsWith("{") ? parseRecord(text) : undefined;
}
