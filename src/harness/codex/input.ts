import type { ContentPart } from "../../contract/index.ts";
import { isRecord } from "../rpc.ts";

/** What somebody said, as Codex takes it: images by their bytes or their path, other files by name. */
export function toInput(content: readonly ContentPart[]): readonly Readonly<Record<string, unknown>>[] {
  return content.map((part) => {
    if (part.type === "image") {
      return part.path.startsWith("data:")
        ? { type: "image", url: part.path }
        : { type: "localImage", path: part.path };
    }
    return { type: "text", text: toText(part), text_elements: [] };
  });
}

/** The way back. */
export function fromInput(input: unknown): ContentPart[] {
  return (Array.isArray(input) ? input : []).filter(isRecord).flatMap((part): ContentPart[] => {
    const { type, text, url, path } = part;
    if (type === "image" && typeof url === "string") return [toImage(url)];
    if (type === "localImage" && typeof path === "string") return [{ type: "image", path }];
    if (type !== "text" || typeof text !== "string") return [];
    const file = text.startsWith(ATTACHED) ? text.slice(ATTACHED.length) : undefined;
    return [file === undefined ? { type: "text", text } : { type: "file_ref", path: file, action: "read" }];
  });
}

const ATTACHED = "Attached file: ";

function toImage(url: string): ContentPart {
  const mime = /^data:([^;,]+)/.exec(url)?.[1];
  return { type: "image", path: url, ...(mime === undefined ? {} : { mime }) };
}

function toText(part: Exclude<ContentPart, { type: "image" }>): string {
  switch (part.type) {
    case "text":
    case "reasoning":
      return part.text;
    case "file_ref":
      return `${ATTACHED}${part.path}`;
    case "tool_result":
      return part.output;
    default:
      return JSON.stringify(part);
  }
}
