import type { ContentPart } from "../contract/index.ts";

const FILE = "Attached file: ";
const IMAGE = "Attached image: ";

/** A part as text, for an agent that takes only text. */
export function partText(part: ContentPart): string {
  switch (part.type) {
    case "text":
    case "reasoning":
      return part.text;
    case "json":
      return JSON.stringify(part.json) ?? "null";
    case "file_ref":
      return `${FILE}${part.path}`;
    case "image":
      return `${IMAGE}${part.path}`;
    case "tool_result":
      return part.output;
    case "tool_call":
      return `${part.name}(${part.arguments})`;
    case "status":
      return part.detail === undefined ? part.label : `${part.label}: ${part.detail}`;
  }
}

/** The inverse of `partText`, for reading recordings. */
export function fromPartText(text: string): ContentPart {
  if (text.startsWith(FILE)) return { type: "file_ref", path: text.slice(FILE.length), action: "read" };
  if (text.startsWith(IMAGE)) return { type: "image", path: text.slice(IMAGE.length) };
  return { type: "text", text };
}

/** An image by its bytes in base64. */
export function imagePart(data: string, mime: string): ContentPart {
  return { type: "image", path: `data:${mime};base64,${data}`, mime };
}

/** The exit code of a failed command, for its result; empty for any other value. */
export function exitPart(code: unknown): ContentPart[] {
  return typeof code === "number" && code !== 0 ? [{ type: "json", json: { exit_code: code } }] : [];
}
