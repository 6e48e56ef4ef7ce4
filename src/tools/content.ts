import type { ContentPart } from "../contract/index.ts";
import { parseOthersJson } from "../contract/json.ts";
import type { CustomTool, ToolAnswer } from "./port.ts";

/** The result of MCP's `tools/call`. */
interface McpResult {
  readonly content: readonly McpContent[];
  readonly isError: boolean;
}

type McpContent =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "image"; readonly data: string; readonly mimeType: string };

/** The entry in `tools/list`. With `alwaysLoad` Claude Code does not hide the tool behind a search. */
export function toMcpTool({ name, description, inputSchema }: CustomTool): object {
  return {
    name,
    description,
    inputSchema: { type: "object", ...inputSchema },
    _meta: { "anthropic/alwaysLoad": true },
  };
}

export function toMcpResult({ content, status }: ToolAnswer): McpResult {
  const parts = content.map(toMcpContent);
  if (status === "cancelled" && parts.length === 0)
    parts.push({ type: "text", text: "The call was cancelled." });
  return { content: parts, isError: status !== "completed" };
}

const DATA_URL = /^data:([^;,]+);base64,/;

function toMcpContent(part: ContentPart): McpContent {
  switch (part.type) {
    case "text":
    case "reasoning":
      return { type: "text", text: part.text };
    case "json":
      return { type: "text", text: JSON.stringify(part.json) };
    case "image": {
      // The path is a data URL where a client gave the image's bytes.
      const [head, mime] = DATA_URL.exec(part.path) ?? [];
      if (head === undefined || mime === undefined) return { type: "text", text: `Image: ${part.path}` };
      return { type: "image", data: part.path.slice(head.length), mimeType: part.mime ?? mime };
    }
    case "file_ref":
      return { type: "text", text: `File: ${part.path}` };
    case "tool_result":
      return { type: "text", text: part.output };
    default:
      return { type: "text", text: JSON.stringify(part) };
  }
}

/** The object, or array, of a JSON text; undefined for any other text. */
export function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = parseOthersJson(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}
