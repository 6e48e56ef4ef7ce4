import type { ContentPart } from "../../contract/index.ts";
import { isRecord, type Params } from "../rpc.ts";
import { toUnifiedDiff } from "../scripted/agent/unified-diff.ts";

/** A content block of ACP as parts of an item. */
export function toParts(block: Params): ContentPart[] {
  const { type, text, data, mimeType, uri, resource } = block;
  if (type === "text" && typeof text === "string") return [{ type: "text", text }];
  if (type === "image" && typeof data === "string") {
    const mime = typeof mimeType === "string" ? mimeType : "image/png";
    return [{ type: "image", path: `data:${mime};base64,${data}`, mime }];
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

/** What a tool's content says in words, whole as every update repeats it. */
export function textOf(content: unknown): string {
  return blocksOf(content)
    .map(({ text }) => (typeof text === "string" ? text : ""))
    .filter((text) => text !== "")
    .join("\n");
}

/** What a tool's content shows beside words. */
export function imagesOf(content: unknown): ContentPart[] {
  return blocksOf(content)
    .filter((block) => block["type"] !== "text")
    .flatMap(toParts);
}

/** The files that a tool's content changes. */
export function filesOf(content: unknown): ContentPart[] {
  if (!Array.isArray(content)) return [];
  return content.filter(isRecord).flatMap((entry): ContentPart[] => {
    const { type, path, oldText, newText } = entry;
    if (type !== "diff" || typeof path !== "string" || typeof newText !== "string") return [];
    if (typeof oldText !== "string" || oldText === "") return [{ type: "file_ref", path, action: "write" }];
    const diff = toUnifiedDiff(path, oldText, newText);
    return [{ type: "file_ref", path, action: "patch", ...(diff === "" ? {} : { diff }) }];
  });
}

export function pathsOf(locations: unknown): string[] {
  if (!Array.isArray(locations)) return [];
  return locations.filter(isRecord).flatMap(({ path }) => (typeof path === "string" ? [path] : []));
}

function blocksOf(content: unknown): Params[] {
  if (!Array.isArray(content)) return [];
  return content
    .filter(isRecord)
    .flatMap(({ type, content: block }) => (type === "content" && isRecord(block) ? [block] : []));
}
