import type { ContentPart } from "../../contract/index.ts";
import { isRecord, type Params } from "../rpc.ts";
import { imagesOf, textOf } from "./content.ts";

export interface Outcome {
  readonly output: string;
  readonly failed: boolean;
  readonly content: readonly ContentPart[];
}

/** What came out of a call, from the update that ends it. */
export function toOutcome(fields: Params): Outcome {
  const { status, content, rawOutput } = fields;
  const code = exitCode(rawOutput);
  const hasFailed = code !== undefined && code !== 0;
  return {
    output: outputOf(content, rawOutput),
    failed: status === "failed" || hasFailed,
    content: [
      ...imagesOf(content),
      ...(hasFailed ? [{ type: "json" as const, json: { exit_code: code } }] : []),
    ],
  };
}

export function outputOf(content: unknown, raw: unknown): string {
  if (typeof raw === "string") return raw;
  const shown = textOf(content);
  if (shown !== "") return shown;
  return rawText(raw);
}

/** Where agents keep the words of what they return. */
const WORDS = [
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
  return wordsIn(raw) ?? (Array.isArray(raw["content"]) ? rawText(raw["content"]) : JSON.stringify(raw));
}

/** The words of a structured result, at whatever depth: `{"MCP":{"output":{"OkayOutput":"…"}}}`. */
function wordsIn(record: Params, depth = 0): string | undefined {
  for (const key of WORDS) {
    const value = record[key];
    if (typeof value === "string" && value !== "") return value;
  }
  const nested = Object.values(record).filter(isRecord);
  for (const value of depth < 3 ? nested : []) {
    const words = wordsIn(value, depth + 1) ?? onlyText(value);
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
