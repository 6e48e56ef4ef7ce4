import type { ContentPart } from "../../contract/index.ts";
import { fromPartText, partText } from "../partText.ts";
import { isRecord } from "../rpc.ts";

/** What somebody said, as Codex takes it: images by their bytes or their path, other files by name. */
export function toInput(content: readonly ContentPart[]): readonly Readonly<Record<string, unknown>>[] {
  return content.map((part) => {
    if (part.type === "image") {
      return part.path.startsWith("data:")
        ? { type: "image", url: part.path }
        : { type: "localImage", path: part.path };
    }
    return { type: "text", text: partText(part), text_elements: [] };
  });
}

/** The way back. */
export function fromInput(input: unknown): ContentPart[] {
  return (Array.isArray(input) ? input : []).filter(isRecord).flatMap((part): ContentPart[] => {
    const { type, text, url, path } = part;
    if (type === "image" && typeof url === "string") return [toImage(url)];
    if (type === "localImage" && typeof path === "string") return [{ type: "image", path }];
    if (type !== "text" || typeof text !== "string") return [];
    return [fromPartText(text)];
  });
}

function toImage(url: string): ContentPart {
  const mime = /^data:([^;,]+)/.exec(url)?.[1];
  return { type: "image", path: url, ...(mime === undefined ? {} : { mime }) };
}
