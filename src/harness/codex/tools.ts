import type { ContentPart } from "../../contract/index.ts";
import { exitPart, imagePart } from "../content-part.ts";
import { asText, isRecord, toFields, toRecords } from "../fields.ts";
import type { Params } from "../rpc.ts";
import type { ToolOutcome } from "../scribe.ts";
import { own, without } from "../transcript.ts";
import { isMain, originOf, type Reading } from "./state.ts";

export function toOutcome(item: Params): ToolOutcome {
  switch (item["type"]) {
    case "commandExecution":
      return commandOutcome(item);
    case "fileChange":
      return fileOutcome(item);
    case "mcpToolCall":
      return mcpOutcome(item);
    case "dynamicToolCall":
      return dynamicOutcome(item);
    case "imageView": {
      const path = String(item["path"] ?? "");
      return { output: path, content: [{ type: "file_ref", path, action: "read" }] };
    }
    case "imageGeneration":
      return imageOutcome(item);
    case "webSearch":
      return { output: textOf(item["results"] ?? item["action"] ?? item["query"]) };
    case "collabAgentToolCall":
      return { output: textOf(item["agentsStates"]), failed: isFailed(item) };
    default:
      return { output: textOf(item["output"] ?? ""), failed: isFailed(item) };
  }
}

function isFailed({ status }: Params): boolean {
  return status === "failed" || status === "declined" || status === "interrupted";
}

function commandOutcome(item: Params): ToolOutcome {
  const { aggregatedOutput, exitCode, commandActions, status } = item;
  const output = asText(aggregatedOutput) ?? (status === "declined" ? "declined" : "");
  const failed = isFailed(item);
  const content = exitPart(exitCode);
  for (const action of !failed && Array.isArray(commandActions) ? commandActions : []) {
    if (isRecord(action) && action["type"] === "read" && typeof action["path"] === "string") {
      content.push({ type: "file_ref", path: action["path"], action: "read" });
    }
  }
  return { output, failed, content };
}

function fileOutcome(item: Params): ToolOutcome {
  const { changes, status } = item;
  if (isFailed(item)) return { output: String(status), failed: true };
  const refs = toFileRefs(changes);
  const paths = refs.flatMap((ref) => (ref.type === "file_ref" ? [ref.path] : []));
  return { output: paths.join("\n"), content: refs };
}

function mcpOutcome(item: Params): ToolOutcome {
  const { result, error } = item;
  if (isRecord(error)) return { output: textOf(error["message"]), failed: true };
  const { content, structuredContent } = toFields(result);
  const blocks = toRecords(content);
  const texts = blocks.flatMap(({ text, resource }) => {
    if (typeof text === "string") return [text];
    return isRecord(resource) && typeof resource["text"] === "string" ? [resource["text"]] : [];
  });
  const structured = texts.length === 0 && structuredContent != null ? textOf(structuredContent) : "";
  return { output: texts.join("\n") || structured, failed: isFailed(item), content: blocks.flatMap(toImage) };
}

function toImage({ type, data, mimeType }: Params): ContentPart[] {
  if (type !== "image" || typeof data !== "string") return [];
  const mime = typeof mimeType === "string" ? mimeType : "image/png";
  return [imagePart(data, mime)];
}

function dynamicOutcome(item: Params): ToolOutcome {
  const { contentItems, success } = item;
  const parts = toRecords(contentItems);
  const texts = parts.flatMap(({ text }) => (typeof text === "string" ? [text] : []));
  const content = parts.flatMap(({ imageUrl }): ContentPart[] =>
    typeof imageUrl === "string" ? [{ type: "image", path: imageUrl }] : [],
  );
  return { output: texts.join("\n"), failed: isFailed(item) || success === false, content };
}

function imageOutcome(item: Params): ToolOutcome {
  const { result, savedPath, failure } = item;
  if (isRecord(failure)) return { output: textOf(failure), failed: true };
  if (typeof savedPath === "string") {
    return { output: savedPath, content: [{ type: "file_ref", path: savedPath, action: "write" }] };
  }
  const bytes = typeof result === "string" && result !== "" ? result : undefined;
  return { output: "", content: bytes === undefined ? [] : [imagePart(bytes, "image/png")] };
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}

/** The changes of a patch, one per file. */
function toFileRefs(changes: unknown): ContentPart[] {
  return (Array.isArray(changes) ? changes : []).flatMap((change: unknown): ContentPart[] => {
    if (!isRecord(change) || typeof change["path"] !== "string") return [];
    const { path, kind, diff } = change;
    const type = isRecord(kind) ? kind["type"] : kind;
    const action = type === "add" ? "write" : "patch";
    const text = typeof diff === "string" ? toDiff(path, type, diff) : undefined;
    const moved = isRecord(kind) && typeof kind["move_path"] === "string" ? kind["move_path"] : undefined;
    const refs: ContentPart[] = [
      { type: "file_ref", path, action, ...(text === undefined ? {} : { diff: text }) },
    ];
    if (moved !== undefined) refs.push({ type: "file_ref", path: moved, action: "write" });
    return refs;
  });
}

/** Codex gives the hunks of an update, and the bare content of a file that is added or deleted. */
function toDiff(path: string, type: unknown, diff: string): string {
  const name = path.replace(/^\/+/, "");
  if (type === "add") return `--- /dev/null\n+++ b/${name}\n${wholeHunk(diff, "+")}`;
  if (type === "delete") return `--- a/${name}\n+++ /dev/null\n${wholeHunk(diff, "-")}`;
  return diff.startsWith("--- ") ? diff : `--- a/${name}\n+++ b/${name}\n${diff}`;
}

function wholeHunk(content: string, sign: "+" | "-"): string {
  if (content === "") return "";
  const isEnded = content.endsWith("\n");
  const lines = (isEnded ? content.slice(0, -1) : content).split("\n");
  const count = lines.length === 1 ? "1" : `1,${lines.length}`;
  const range = sign === "+" ? `-0,0 +${count}` : `-${count} +0,0`;
  const body = lines.map((line) => `${sign}${line}\n`).join("");
  return `@@ ${range} @@\n${body}${isEnded ? "" : "\\ No newline at end of file\n"}`;
}

/** Beginnings of Codex's output for a call that it refused, or for a script that failed. It reports no item for these. */
const REFUSED = [
  /^unsupported (?:custom tool )?call: /,
  /^failed to parse function arguments: /,
  /^Script (?:failed|error)/,
];

/**
 * Reads a call in the model's own form, or its output. Only the refused calls matter: Codex reports the others as
 * items.
 */
export function readRawItem(reading: Reading, { item, threadId }: Params): void {
  if (!isRecord(item) || typeof item["call_id"] !== "string") return;
  const thread = asText(threadId);
  const id = item["call_id"];
  switch (item["type"]) {
    case "function_call":
    case "custom_tool_call": {
      const call = { name: String(item["name"]), input: rawInput(item), thread: thread ?? "" };
      return reading.change({ unanswered: { ...reading.state.unanswered, [id]: call } });
    }
    case "function_call_output":
    case "custom_tool_call_output":
      return readRawOutput(reading, { id, output: item["output"], thread });
  }
}

/** Reads the output of a call. Reports the call too if Codex refused it, because there is no item for it then. */
function readRawOutput(
  reading: Reading,
  { id, output, thread }: { id: string; output: unknown; thread: string | undefined },
): void {
  const { unanswered = {} } = reading.state;
  const call = own(unanswered, id);
  if (call === undefined) return;
  reading.change({ unanswered: without(unanswered, id) });
  const text = rawText(output);
  const failed = REFUSED.some((words) => words.test(text));
  if (call.told) return void reading.scribe.result(id, { output: text, failed });
  if (!failed || reading.scribe.hasCall(id) || !isMain(reading, thread) || !reading.state.prompted) return;
  reading.scribe.call(id, { name: call.name, input: call.input, ...originOf(reading, thread) });
  reading.scribe.result(id, { output: text, failed });
}

function rawText(output: unknown): string {
  if (typeof output === "string") return output;
  const parts = toRecords(output);
  return parts.flatMap(({ text }) => (typeof text === "string" ? [text] : [])).join("");
}

function rawInput({ arguments: text, input }: Params): unknown {
  if (typeof text !== "string") return { input };
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return { arguments: text };
  }
}
