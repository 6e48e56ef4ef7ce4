import type { ContentPart } from "../../contract/index.ts";
import { toUnifiedDiff } from "../../text/unified-diff.ts";
import { exitPart, imagePart } from "../content-part.ts";
import { asText, isRecord, toRecords } from "../fields.ts";
import type { Params } from "../rpc.ts";

/** A content block of ACP as parts of an item. */
export function toParts(block: Params): ContentPart[] {
  const { type, text, data, mimeType, uri, resource } = block;
  if (type === "text" && typeof text === "string") return [{ type: "text", text }];
  if (type === "image" && typeof data === "string") {
    return [imagePart(data, asText(mimeType) ?? "image/png")];
  }
  if (type === "resource_link" && typeof uri === "string") {
    return [{ type: "file_ref", path: uri.replace(/^file:\/\//, ""), action: "read" }];
  }
  if (type === "resource" && isRecord(resource)) {
    return typeof resource["text"] === "string"
      ? [{ type: "text", text: resource["text"] }]
      : [{ type: "json", json: resource }];
  }
  return type === "audio" ? [{ type: "json", json: { type, mimeType } }] : [];
}

/** The text of a tool's content. Every update repeats it whole. */
export function textOf(content: unknown): string {
  return blocksOf(content)
    .map(({ text }) => (typeof text === "string" ? text : ""))
    .filter((text) => text !== "")
    .join("\n");
}

/** The images and other parts of a tool's content. */
function imagesOf(content: unknown): ContentPart[] {
  return blocksOf(content)
    .filter((block) => block["type"] !== "text")
    .flatMap(toParts);
}

/** References to the files that a tool's content changes. */
export function filesOf(content: unknown): ContentPart[] {
  return toRecords(content).flatMap(({ type, path, oldText, newText }): ContentPart[] => {
    if (type !== "diff" || typeof path !== "string" || typeof newText !== "string") return [];
    if (typeof oldText !== "string" || oldText === "") return [{ type: "file_ref", path, action: "write" }];
    const diff = toUnifiedDiff(path, oldText, newText);
    return [{ type: "file_ref", path, action: "patch", ...(diff === "" ? {} : { diff }) }];
  });
}

export function pathsOf(locations: unknown): string[] {
  return toRecords(locations).flatMap(({ path }) => asText(path) ?? []);
}

function blocksOf(content: unknown): Params[] {
  return toRecords(content).flatMap(({ type, content: block }) =>
    type === "content" && isRecord(block) ? [block] : [],
  );
}

export interface Outcome {
  readonly output: string;
  readonly failed: boolean;
  readonly content: readonly ContentPart[];
}

/** The outcome of a call, from its last update. */
export function toOutcome(fields: Params): Outcome {
  const { status, content, rawOutput } = fields;
  const code = exitCode(rawOutput);
  return {
    output: outputOf(content, rawOutput),
    failed: status === "failed" || (code !== undefined && code !== 0),
    content: [...imagesOf(content), ...exitPart(code)],
  };
}

export function outputOf(content: unknown, raw: unknown): string {
  if (typeof raw === "string") return raw;
  const shown = textOf(content);
  if (shown !== "") return shown;
  return rawText(raw);
}

/** Fields in which agents return a text. */
const TEXT_KEYS = [
  "formatted_output",
  "aggregated_output",
  "tool_output_for_prompt",
  "summary_for_prompt",
  "output",
  "stdout",
  "text",
  "message",
  "error",
];

function rawText(raw: unknown): string {
  if (Array.isArray(raw))
    return raw.map((part) => (isRecord(part) ? String(part["text"] ?? "") : "")).join("\n");
  if (!isRecord(raw)) return "";
  return textIn(raw) ?? (Array.isArray(raw["content"]) ? rawText(raw["content"]) : JSON.stringify(raw));
}

/** The text of a structured result, up to a depth of 3: `{"MCP":{"output":{"OkayOutput":"…"}}}`. */
function textIn(record: Params, depth = 0): string | undefined {
  for (const key of TEXT_KEYS) {
    const value = record[key];
    if (typeof value === "string" && value !== "") return value;
  }
  const nested = Object.values(record).filter(isRecord);
  for (const value of depth < 3 ? nested : []) {
    const words = textIn(value, depth + 1) ?? onlyText(value);
    if (words !== undefined) return words;
  }
  return undefined;
}

function onlyText(record: Params): string | undefined {
  const [value, ...others] = Object.values(record);
  return typeof value === "string" && others.length === 0 ? value : undefined;
}

function exitCode(raw: unknown): number | undefined {
  if (!isRecord(raw)) return undefined;
  const code = raw["exit_code"] ?? (isRecord(raw["metadata"]) ? raw["metadata"]["exit"] : undefined);
  return typeof code === "number" && Number.isInteger(code) ? code : undefined;
}
