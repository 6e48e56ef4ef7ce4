import type { ContentPart } from "../../contract/index.ts";
import { isRecord } from "../rpc.ts";

const FILE = "Attached file: ";
const IMAGE = "Attached image: ";

type Block = Readonly<Record<string, unknown>>;

/** A message as ACP's content blocks; what is not text or an image's bytes is named by its path. */
export function toBlocks(content: readonly ContentPart[]): Block[] {
  return content.map((part) => {
    if (part.type !== "image") return { type: "text", text: toText(part) };
    const data = /^data:([^;,]*);base64,(.*)$/s.exec(part.path);
    if (!data) return { type: "text", text: `${IMAGE}${part.path}` };
    return { type: "image", mimeType: part.mime ?? data[1], data: data[2] };
  });
}

/** The way back, for recordings. */
export function fromBlocks(blocks: unknown): ContentPart[] {
  if (!Array.isArray(blocks)) return [];
  return blocks.filter(isRecord).map((block): ContentPart => {
    const { type, text, mimeType, data, uri } = block;
    if (type === "image" && typeof data === "string") {
      const mime = typeof mimeType === "string" ? mimeType : "image/png";
      return { type: "image", path: `data:${mime};base64,${data}`, mime };
    }
    if (typeof uri === "string")
      return { type: "file_ref", path: uri.replace(/^file:\/\//, ""), action: "read" };
    if (typeof text !== "string") return { type: "json", json: block };
    if (text.startsWith(FILE)) return { type: "file_ref", path: text.slice(FILE.length), action: "read" };
    if (text.startsWith(IMAGE)) return { type: "image", path: text.slice(IMAGE.length) };
    return { type: "text", text };
  });
}

/** A part as an agent can read it that knows only text. */
export function toText(part: ContentPart): string {
  switch (part.type) {
    case "text":
    case "reasoning":
      return part.text;
    case "file_ref":
      return `${FILE}${part.path}`;
    case "image":
      return `${IMAGE}${part.path}`;
    case "json":
      return JSON.stringify(part.json) ?? "null";
    case "tool_result":
      return part.output;
    case "tool_call":
      return `${part.name}(${part.arguments})`;
    case "status":
      return part.detail === undefined ? part.label : `${part.label}: ${part.detail}`;
  }
}
