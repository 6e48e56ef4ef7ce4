import type { ContentPart } from "../../contract/index.ts";
import { isRecord, parseRecord } from "../rpc.ts";
import type { ToolOutcome } from "../scribe.ts";
import { isEdit, pathOf } from "./tools.ts";

/** What a `tool_result` block says: text, or the JSON text of what Amp's own tools answer. */
export function toOutcome(
  call: { name: string; input: string } | undefined,
  block: Readonly<Record<string, unknown>>,
): ToolOutcome {
  const { text, images } = readContent(block["content"]);
  const answer = recordIn(text);
  const exitCode = answer?.["exitCode"] ?? answer?.["exit_code"];
  const hasFailedExit = typeof exitCode === "number" && exitCode !== 0;
  const failed = block["is_error"] === true || hasFailedExit;
  const content: ContentPart[] = [...images];
  const file = failed ? undefined : fileOf(call, answer, text);
  if (file) content.push(file);
  if (hasFailedExit) content.push({ type: "json", json: { exit_code: exitCode } });
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
  if (typeof data === "string") return { type: "image", path: `data:${mime};base64,${data}`, mime };
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

/** Most of what tools answer is no JSON, and is not tried. */
function recordIn(text: string): Record<string, unknown> | undefined {
  return text.startsWith("{") ? parseRecord(text) : undefined;
}
