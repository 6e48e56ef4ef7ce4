import type { ContentPart } from "../contract/index.ts";
import type { CustomTool, ToolAnswer } from "./port.ts";

/** What MCP's `tools/call` answers. */
export interface McpResult {
  readonly content: readonly McpContent[];
  readonly isError: boolean;
}

export type McpContent =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "image"; readonly data: string; readonly mimeType: string };

/** As `tools/list` names it. An application's few tools are no catalogue: Claude Code shall not hide them behind a search. */
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
