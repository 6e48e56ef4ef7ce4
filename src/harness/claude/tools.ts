import { commonToolName, type ContentPart } from "../../contract/index.ts";
import { ruleOf } from "../../contract/tool-names.ts";
import { exitPart, imagePart } from "../content-part.ts";
import { type Fields, toFields, toList, toText } from "../fields.ts";
import type { PermissionMetadata, ToolOutcome } from "../scribe.ts";
import { own, without } from "../transcript.ts";
import { EXIT_PLAN_MODE } from "./plan-mode.ts";
import { type ClaudeState, type KeptInput, parentOf, type Reader, type Reading } from "./state.ts";
import { changePlan, isPlanTool } from "./todo-list.ts";

/** The model's input of a turn: tool results, and the CLI's own messages to the model. */
export const readUser: Reader = (reading, line) => {
  const { content } = toFields(line["message"]) as { content?: unknown };
  readText(reading, line, typeof content === "string" ? content : textOf(content));
  for (const block of toList(content))
    if (block["type"] === "tool_result") readToolResult(reading, block, line);
  return undefined;
};

function readText(reading: Reading, line: Fields, content: string): void {
  const { compaction } = reading.state;
  if (compaction && line["isSynthetic"] === true) {
    reading.scribe.compacted({ ...compaction, ...(content === "" ? {} : { summary: content }) });
    return reading.change({ compaction: undefined });
  }
  const [, output] = LOCAL_COMMAND.exec(content) ?? [];
  if (output !== undefined && output.trim() !== "")
    reading.scribe.status("command", { detail: output.trim() });
}

/** Output of a slash command. */
const LOCAL_COMMAND = /^<local-command-std(?:out|err)>([^]*)<\/local-command-std(?:out|err)>$/;

function textOf(content: unknown): string {
  return toList(content)
    .map((block) => (block["type"] === "text" ? toText(block["text"]) : ""))
    .join("");
}

function readToolResult(reading: Reading, block: Fields, line: Fields): void {
  const { state, scribe } = reading;
  const id = toText(block["tool_use_id"]);
  const call = own(scribe.transcript.calls, id);
  if (!call) return;
  const result = line["tool_use_result"];
  const agent = backgroundAgent(call.name, { block, result });
  if (agent !== undefined) {
    scribe.startResult(id);
    return reading.change({ background: { ...state.background, [id]: agent } });
  }
  const kept = own(state.inputs, id);
  const failed = block["is_error"] === true;
  if (failed && isDenied(state, call.name, block)) {
    // The CLI asks no permission for a denied tool, so sluice adds the request to the log.
    const metadata: PermissionMetadata = { call_id: id, name: call.name, input: {}, kind: "other" };
    const data = { permission_id: `perm_${id}`, action: call.name, status: "requested" as const, metadata };
    scribe.add({ type: "permission.requested", data }, { parent: parentOf(line) });
  }
  scribe.result(id, toOutcome(block, { name: call.name, result, path: kept?.path }));
  reading.change({ inputs: without(state.inputs, id) });
  const tasks = failed ? undefined : changePlan(state.tasks, { name: call.name, input: kept?.value, result });
  if (!tasks) return;
  scribe.plan(Object.values(tasks));
  reading.change({ tasks });
}

/** Whether the call failed because the session's rules deny its tool. */
function isDenied({ rules }: ClaudeState, name: string, block: Fields): boolean {
  if (ruleOf({ rules }, commonToolName(name)) !== "deny") return false;
  return /No such tool available|has been denied/.test(toOutput(block["content"]));
}

/** The CLI's name of a sub-agent that goes on in the background after its call has returned. */
function backgroundAgent(
  name: string,
  { block, result }: { block: Fields; result: unknown },
): string | undefined {
  if (name !== "Agent" && name !== "Task") return undefined;
  const { status, isAsync, agentId } = toFields(result);
  if (status === "async_launched" || isAsync === true) return toText(agentId);
  const [, id] =
    /^Async agent launched successfully[^]*?agentId: (\w+)/.exec(toOutput(block["content"])) ?? [];
  return id;
}

/** The outcome of a tool: its text, the files that it touched, its images. */
function toOutcome(
  block: Fields,
  { name, result, path }: { name: string; result: unknown; path: string | undefined },
): ToolOutcome {
  const failed = block["is_error"] === true;
  const output = toOutput(block["content"]);
  const content: ContentPart[] = [];
  const file = failed ? undefined : toFileRef(name, toFields(result), path);
  if (file) content.push(file);
  for (const image of toList(block["content"]))
    if (image["type"] === "image") content.push(...toImage(image));
  const code = failed && name === "Bash" ? /^(?:Error: )?Exit code (\d+)/.exec(output)?.[1] : undefined;
  content.push(...exitPart(Number(code ?? 0)));
  return { output, failed, content };
}

function toOutput(content: unknown): string {
  if (typeof content === "string") return content;
  return toList(content)
    .flatMap((part) => {
      if (part["type"] === "text") return [toText(part["text"])];
      return part["type"] === "tool_reference" ? [toText(part["tool_name"])] : [];
    })
    .join("\n");
}

function toImage(block: Fields): ContentPart[] {
  const source = toFields(block["source"]);
  const mime = toText(source["media_type"]) || "image/png";
  const data = toText(source["data"]);
  if (data !== "") return [imagePart(data, mime)];
  const url = toText(source["url"]);
  return url === "" ? [] : [{ type: "image", path: url, mime }];
}

const ACTIONS: Readonly<Record<string, "read" | "write" | "patch">> = {
  Read: "read",
  Write: "write",
  Edit: "patch",
  MultiEdit: "patch",
  NotebookEdit: "patch",
};

function toFileRef(name: string, result: Fields, given: string | undefined): ContentPart | undefined {
  const action = Object.hasOwn(ACTIONS, name) ? ACTIONS[name] : undefined;
  const path = toText(result["filePath"] ?? result["notebook_path"]) || given;
  if (!action || path === undefined) return undefined;
  const hunks = toList(result["structuredPatch"]);
  return { type: "file_ref", path, action, ...(hunks.length === 0 ? {} : { diff: toDiff(path, hunks) }) };
}

function toDiff(path: string, hunks: readonly Fields[]): string {
  const name = path.replace(/^\//, "");
  const bodies = hunks.map((hunk) => {
    const range = (side: "old" | "new"): string =>
      `${Number(hunk[`${side}Start`])},${Number(hunk[`${side}Lines`])}`;
    const lines = Array.isArray(hunk["lines"]) ? hunk["lines"].map(String) : [];
    return [`@@ -${range("old")} +${range("new")} @@`, ...lines, ""].join("\n");
  });
  return `--- a/${name}\n+++ b/${name}\n${bodies.join("")}`;
}

/** Keeps the part of a call's input that its result does not repeat. */
export function keepInput(reading: Reading, call: { id: string; name: string; input: unknown }): void {
  const kept = toKept(call.name, call.input);
  if (kept !== undefined) reading.change({ inputs: { ...reading.state.inputs, [call.id]: kept } });
}

function toKept(name: string, input: unknown): KeptInput | undefined {
  if (isPlanTool(name) || name === EXIT_PLAN_MODE) return { value: input };
  const fields = toFields(input);
  const path = toText(fields["file_path"] ?? fields["notebook_path"]);
  return path === "" ? undefined : { path };
}
