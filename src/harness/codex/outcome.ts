import type { ContentPart } from "../../contract/index.ts";
import { isRecord, type Params } from "../rpc.ts";
import type { ToolOutcome } from "../scribe.ts";
import { toFileRefs } from "./patch.ts";

/** What came back from a tool, by the kind of its item. */
export function toOutcome(item: Params): ToolOutcome {
  switch (item["type"]) {
    case "commandExecution":
      return commandOutcome(item);
    case "fileChange":
      return fileOutcome(item);
    case "mcpToolCall":
      return mcpOutcome(item);
    case "dynamicToolCall":
      return dynamicOutcome(item);
    case "imageView": {
      const path = String(item["path"] ?? "");
      return { output: path, content: [{ type: "file_ref", path, action: "read" }] };
    }
    case "imageGeneration":
      return imageOutcome(item);
    case "webSearch":
      return { output: textOf(item["results"] ?? item["action"] ?? item["query"]) };
    case "collabAgentToolCall":
      return { output: textOf(item["agentsStates"]), failed: isFailed(item) };
    default:
      return { output: textOf(item["output"] ?? ""), failed: isFailed(item) };
  }
}

function isFailed({ status }: Params): boolean {
  return status === "failed" || status === "declined" || status === "interrupted";
}

function commandOutcome(item: Params): ToolOutcome {
  const { aggregatedOutput, exitCode, commandActions, status } = item;
  const output =
    typeof aggregatedOutput === "string" ? aggregatedOutput : status === "declined" ? "declined" : "";
  const failed = isFailed(item);
  const content: ContentPart[] = [];
  if (typeof exitCode === "number" && exitCode !== 0)
    content.push({ type: "json", json: { exit_code: exitCode } });
  for (const action of !failed && Array.isArray(commandActions) ? commandActions : []) {
    if (isRecord(action) && action["type"] === "read" && typeof action["path"] === "string") {
      content.push({ type: "file_ref", path: action["path"], action: "read" });
    }
  }
  return { output, failed, content };
}

function fileOutcome(item: Params): ToolOutcome {
  const { changes, status } = item;
  if (isFailed(item)) return { output: String(status), failed: true };
  const refs = toFileRefs(changes);
  const paths = refs.flatMap((ref) => (ref.type === "file_ref" ? [ref.path] : []));
  return { output: paths.join("\n"), content: refs };
}

function mcpOutcome(item: Params): ToolOutcome {
  const { result, error } = item;
  if (isRecord(error)) return { output: textOf(error["message"]), failed: true };
  const { content, structuredContent } = isRecord(result) ? result : {};
  const blocks = (Array.isArray(content) ? content : []).filter(isRecord);
  const texts = blocks.flatMap(({ text, resource }) => {
    if (typeof text === "string") return [text];
    return isRecord(resource) && typeof resource["text"] === "string" ? [resource["text"]] : [];
  });
  const structured = texts.length === 0 && structuredContent != null ? textOf(structuredContent) : "";
  return { output: texts.join("\n") || structured, failed: isFailed(item), content: blocks.flatMap(toImage) };
}

function toImage({ type, data, mimeType }: Params): ContentPart[] {
  if (type !== "image" || typeof data !== "string") return [];
  const mime = typeof mimeType === "string" ? mimeType : "image/png";
  return [{ type: "image", path: `data:${mime};base64,${data}`, mime }];
}

function dynamicOutcome(item: Params): ToolOutcome {
  const { contentItems, success } = item;
  const parts = (Array.isArray(contentItems) ? contentItems : []).filter(isRecord);
  const texts = parts.flatMap(({ text }) => (typeof text === "string" ? [text] : []));
  const content = parts.flatMap(({ imageUrl }): ContentPart[] =>
    typeof imageUrl === "string" ? [{ type: "image", path: imageUrl }] : [],
  );
  return { output: texts.join("\n"), failed: isFailed(item) || success === false, content };
}

function imageOutcome(item: Params): ToolOutcome {
  const { result, savedPath, failure } = item;
  if (isRecord(failure)) return { output: textOf(failure), failed: true };
  if (typeof savedPath === "string") {
    return { output: savedPath, content: [{ type: "file_ref", path: savedPath, action: "write" }] };
  }
  const bytes = typeof result === "string" && result !== "" ? result : undefined;
  const content: ContentPart[] =
    bytes === undefined ? [] : [{ type: "image", path: `data:image/png;base64,${bytes}`, mime: "image/png" }];
  return { output: "", content };
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}
