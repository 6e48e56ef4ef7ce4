import type { ContentPart } from "../../contract/index.ts";
import { fromPartText, partText } from "../partText.ts";
import { isRecord } from "../rpc.ts";

type Block = Readonly<Record<string, unknown>>;

/** A message as ACP's content blocks; what is not text or an image's bytes is named by its path. */
export function toBlocks(content: readonly ContentPart[]): Block[] {
  return content.map((part) => {
    if (part.type !== "image") return { type: "text", text: partText(part) };
    const data = /^data:([^;,]*);base64,(.*)$/s.exec(part.path);
    if (!data) return { type: "text", text: partText(part) };
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
    return fromPartText(text);
  });
}
