import type { BetaManagedAgentsAgentToolResultEvent } from "@anthropic-ai/sdk/resources/beta/sessions";
import { type ContentPart, type Item, own, parseJsonOr, without } from "../../contract/index.ts";
import type { Projectors } from "../shared/projection.ts";
import { toCaption, toUserMessage, type AnthropicProjection } from "./projection.ts";
import type { DeltaType } from "./state.ts";
import { forgetCall, holdCall, releaseCall } from "./tool-calls.ts";
import { emitFailures } from "./turns.ts";

type ResultBlock = NonNullable<BetaManagedAgentsAgentToolResultEvent["content"]>[number];

export const itemProjectors: Projectors<AnthropicProjection> = {
  /** A sub-agent's items appear like the agent's own: a session has one thread. */
  "item.started": (projection, { data: { item } }) => {
    if (item.kind === "tool_result") {
      const callId = callOf(item);
      if (callId !== undefined) releaseCall(projection, callId);
      return;
    }
    const type = previewOf(item);
    if (type === undefined) return;
    emitFailures(projection);
    const eventId = projection.idOf();
    const previewed = projection.state.view.deltas?.includes(type) ?? false;
    projection.change({
      opened: { ...projection.state.opened, [item.item_id]: { eventId, type, previewed } },
    });
    if (previewed) projection.preview("event_start", { event: { type, id: eventId } });
  },

  "item.delta": (projection, { data }) => {
    const opened = own(projection.state.opened, data.item_id);
    if (!opened?.previewed || opened.type !== "agent.message") return;
    const delta = { type: "content_delta", index: 0, content: { type: "text", text: data.delta } } as const;
    projection.preview("event_delta", { event_id: opened.eventId, delta });
  },

  "item.completed": (projection, { data: { item }, sequence }) => {
    if (item.kind === "message" && item.role === "user") return projectForeignInput(projection, item);
    if (item.kind === "tool_call")
      return void item.content.forEach((part) => callPart(projection, part, sequence));
    if (item.kind === "tool_result") return projectResult(projection, item);
    const opened = own(projection.state.opened, item.item_id);
    if (!opened) return;
    projection.change({ opened: without(projection.state.opened, item.item_id) });
    // A failed model request leaves no message; the end of its span closes the preview.
    if (item.status === "failed") return;
    if (opened.type === "agent.thinking") return void projection.emit("agent.thinking", {}, opened.eventId);
    const text = item.content.map(toCaption).join("");
    if (text !== "") projection.emit("agent.message", { content: [{ type: "text", text }] }, opened.eventId);
  },
};

function callPart(projection: AnthropicProjection, part: ContentPart, sequence: number): void {
  if (part.type !== "tool_call") return;
  const input = parseJsonOr(part.arguments, part.arguments === "" ? {} : { arguments: part.arguments });
  holdCall(projection, { callId: part.call_id, name: part.name, input, sequence });
}

function projectResult(projection: AnthropicProjection, item: Item): void {
  const callId = item.content.find((part) => part.type === "tool_result")?.call_id ?? callOf(item);
  if (callId === undefined) return;
  releaseCall(projection, callId);
  const call = own(projection.state.calls, callId);
  if (!call) return;
  forgetCall(projection, callId);
  // The application's answer has already shown the result.
  if (call.client) return;
  const content = toResultBlocks(item.content);
  const result = { content, is_error: item.status === "failed" };
  if (call.kind === "mcp")
    projection.emit("agent.mcp_tool_result", { mcp_tool_use_id: call.eventId, ...result });
  else projection.emit("agent.tool_result", { tool_use_id: call.eventId, ...result });
}

/** Shows a message that was sent in another dialect. It has no payload of this one, so its item gives the text. */
function projectForeignInput(projection: AnthropicProjection, item: Item): void {
  if (projection.state.echoed.includes(item.item_id)) return;
  const { type, ...fields } = toUserMessage(item.content);
  projection.echo(type, fields);
}

function previewOf(item: Item): DeltaType | undefined {
  if (item.kind !== "message" || item.role === "user") return undefined;
  return item.content[0]?.type === "reasoning" ? "agent.thinking" : "agent.message";
}

/** The call id of a result without content: the native id, if the agent gives one. */
function callOf(item: Item): string | undefined {
  return item.native_item_id;
}

/** The content of a tool's result. */
export function toResultBlocks(content: readonly ContentPart[]): ResultBlock[] {
  return content.flatMap(toBlock);
}

function toBlock(part: ContentPart): ResultBlock[] {
  if (part.type === "tool_result") return part.output === "" ? [] : [{ type: "text", text: part.output }];
  if (part.type === "text") return part.text === "" ? [] : [part];
  if (part.type !== "image") return [];
  const [, media_type = "", data] = /^data:([^;,]+);base64,(.*)$/s.exec(part.path) ?? [];
  if (data === undefined) return [{ type: "text", text: `[image ${part.path}]` }];
  return [{ type: "image", source: { type: "base64", media_type, data } }];
}
