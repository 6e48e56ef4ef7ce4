import { own } from "../../contract/ownKeys.ts";
import { parseOthersJson } from "../../contract/index.ts";
import type { ContentPart, EventOf, Item } from "../../contract/index.ts";
import { forgetCall, holdCall, releaseCall } from "./calls.ts";
import { toResultBlocks } from "./blocks.ts";
import type { DeltaType } from "./event-types.ts";
import { tellFailures } from "./turn-frames.ts";
import { without, type Teller } from "./teller.ts";

/** What the agent says, thinks and does. A sub-agent's items are told like its own: there is one thread. */
export function tellItemStarted(teller: Teller, { data: { item } }: EventOf<"item.started">): void {
  if (item.kind === "tool_result") {
    const callId = callOf(item);
    if (callId !== undefined) releaseCall(teller, callId);
    return;
  }
  const type = previewOf(item);
  if (type === undefined) return;
  tellFailures(teller);
  const eventId = teller.idOf();
  const previewed = teller.state.view.deltas?.includes(type) ?? false;
  teller.change({ opened: { ...teller.state.opened, [item.item_id]: { eventId, type, previewed } } });
  if (previewed) teller.preview("event_start", { event: { type, id: eventId } });
}

export function tellDelta(teller: Teller, { data }: EventOf<"item.delta">): void {
  const opened = own(teller.state.opened, data.item_id);
  if (!opened?.previewed || opened.type !== "agent.message") return;
  const delta = { type: "content_delta", index: 0, content: { type: "text", text: data.delta } };
  teller.preview("event_delta", { event_id: opened.eventId, delta });
}

export function tellItemCompleted(
  teller: Teller,
  { data: { item }, sequence }: EventOf<"item.completed">,
): void {
  if (item.kind === "message" && item.role === "user") return tellForeignInput(teller, item);
  if (item.kind === "tool_call") return void item.content.forEach((part) => callPart(teller, part, sequence));
  if (item.kind === "tool_result") return tellResult(teller, item);
  const opened = own(teller.state.opened, item.item_id);
  if (!opened) return;
  teller.change({ opened: without(teller.state.opened, item.item_id) });
  // A request that broke off leaves no message; the end of its span closes what was previewed of it.
  if (item.status === "failed") return;
  if (opened.type === "agent.thinking") return void teller.say("agent.thinking", {}, opened.eventId);
  const text = item.content.map(toWords).join("");
  if (text !== "") teller.say("agent.message", { content: [{ type: "text", text }] }, opened.eventId);
}

function callPart(teller: Teller, part: ContentPart, sequence: number): void {
  if (part.type !== "tool_call") return;
  const input = parseArguments(part.arguments);
  holdCall(teller, { callId: part.call_id, name: part.name, input, sequence });
}

function tellResult(teller: Teller, item: Item): void {
  const callId = item.content.find((part) => part.type === "tool_result")?.call_id ?? callOf(item);
  if (callId === undefined) return;
  releaseCall(teller, callId);
  const call = own(teller.state.calls, callId);
  if (!call) return;
  forgetCall(teller, callId);
  // What the application answered was the result.
  if (call.client) return;
  const content = toResultBlocks(item.content);
  const said = { content, is_error: item.status === "failed" };
  if (call.kind === "mcp") teller.say("agent.mcp_tool_result", { mcp_tool_use_id: call.eventId, ...said });
  else teller.say("agent.tool_result", { tool_use_id: call.eventId, ...said });
}

/** A message that came through another dialect has no words of this one; its item has. */
function tellForeignInput(teller: Teller, item: Item): void {
  if (teller.state.echoed.includes(item.item_id)) return;
  const content = item.content.map((part) => ({ type: "text", text: toWords(part) }));
  teller.say("user.message", { content: content.filter(({ text }) => text !== "") });
}

function previewOf(item: Item): DeltaType | undefined {
  if (item.kind !== "message" || item.role === "user") return undefined;
  return item.content[0]?.type === "reasoning" ? "agent.thinking" : "agent.message";
}

/** The call that a result which has only started belongs to: its native id, where the agent has one for it. */
function callOf(item: Item): string | undefined {
  return item.native_item_id;
}

function toWords(part: ContentPart): string {
  if (part.type === "text") return part.text;
  if (part.type === "image") return part.path.startsWith("data:") ? "[image]" : `[image ${part.path}]`;
  return part.type === "file_ref" ? `[file ${part.path}]` : "";
}

function parseArguments(text: string): unknown {
  try {
    return parseOthersJson(text);
  } catch {
    return text === "" ? {} : { arguments: text };
  }
}
