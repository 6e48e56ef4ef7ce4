import type { ContentPart } from "../../contract/index.ts";

/** The content of a tool's result as blocks of this dialect. */
export function toResultBlocks(content: readonly ContentPart[]): object[] {
  return content.flatMap(toBlock);
}

function toBlock(part: ContentPart): object[] {
  if (part.type === "tool_result") return part.output === "" ? [] : [{ type: "text", text: part.output }];
  if (part.type === "text") return part.text === "" ? [] : [part];
  if (part.type !== "image") return [];
  const [, media_type, data] = /^data:([^;,]+);base64,(.*)$/s.exec(part.path) ?? [];
  if (data === undefined) return [{ type: "text", text: `[image ${part.path}]` }];
  return [{ type: "image", source: { type: "base64", media_type, data } }];
}
