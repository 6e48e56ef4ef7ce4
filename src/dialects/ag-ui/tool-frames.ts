import { own } from "../../contract/ownKeys.ts";
import type { EventOf, Item } from "../../contract/index.ts";
import { fromPayload } from "./payload.ts";
import { type Call, without } from "./state.ts";
import { attribute, endSubagent, ownerOf } from "./subagent-frames.ts";
import type { Teller } from "./teller.ts";

/** The application's own tools are called through this MCP server, and told under their own names. */
const BRIDGE = "mcp__sluice__";

export function startCall(teller: Teller, item: Item): void {
  const part = item.content.find((part) => part.type === "tool_call");
  if (!part || Object.hasOwn(teller.state.calls, part.call_id)) return;
  const name = toToolName(part.name);
  const alias = findRequest(teller, name);
  const { parent_id: parent } = teller.event;
  const call = { itemId: item.item_id, name, isAnswered: false, ...(parent === undefined ? {} : { parent }) };
  if (alias !== undefined)
    return keep(teller, part.call_id, { ...call, arguments: "", isOpen: false, alias });
  open(teller, part.call_id, { ...call, arguments: "", isOpen: true });
  growCall(teller, part.call_id, part.arguments);
}

export function growCallOf(teller: Teller, itemId: string, delta: string): void {
  const callId = callOfItem(teller, itemId);
  if (callId !== undefined) growCall(teller, callId, delta);
}

/** The arguments are complete: whatever was not told of them is told now, and they are JSON in any case. */
export function completeCall(teller: Teller, item: Item): void {
  startCall(teller, item);
  const part = item.content.find((part) => part.type === "tool_call");
  const call = part && own(teller.state.calls, part.call_id);
  if (!part || !call || call.alias !== undefined || !call.isOpen) return;
  const whole = part.arguments === "" ? "{}" : part.arguments;
  if (whole.startsWith(call.arguments)) growCall(teller, part.call_id, whole.slice(call.arguments.length));
  endCall(teller, part.call_id);
}

export function endCalls(teller: Teller): void {
  for (const [callId, { isOpen }] of Object.entries(teller.state.calls)) if (isOpen) endCall(teller, callId);
}

export function tellResult(teller: Teller, item: Item): void {
  const result = item.content.find((part) => part.type === "tool_result");
  const given = result?.call_id ?? callOfItem(teller, item.parent_id ?? "");
  if (given === undefined) return;
  const callId = own(teller.state.calls, given)?.alias ?? given;
  const failed = item.status === "failed";
  answer(teller, callId, { messageId: item.item_id, content: result?.output ?? "", failed });
}

/** A tool of the application's is told of the moment that the agent calls it, whoever says so first. */
export function tellToolRequested(teller: Teller, { data }: EventOf<"tool.requested">): void {
  const { request_id: requestId, name, input, call_id: given } = data;
  const known = given === undefined ? undefined : own(teller.state.calls, given);
  const callId = known?.alias ?? given ?? requestId;
  if (!known) {
    const { parent_id: parent } = teller.event;
    const base = { itemId: requestId, name, isAnswered: false, ...(parent === undefined ? {} : { parent }) };
    open(teller, callId, {
      ...base,
      arguments: "",
      isOpen: true,
      ...(given === undefined ? { isRequest: true } : {}),
    });
    growCall(teller, callId, JSON.stringify(input ?? {}));
    endCall(teller, callId);
  }
  const owner = own(teller.state.calls, callId)?.owner;
  const ask = {
    kind: "tool",
    prompt: name,
    callId,
    input,
    ...(owner === undefined ? {} : { owner }),
  } as const;
  teller.change({ asks: { ...teller.state.asks, [requestId]: ask } });
  teller.custom(
    "tool-input-available",
    { toolCallId: callId, toolName: name, input: input ?? {} },
    { metadata: { sluice: { requestId, sessionId: teller.event.session_id } } },
  );
}

/** What the client answered it knows itself; what nobody else will tell of is told here. */
export function tellToolResolved(teller: Teller, { data }: EventOf<"tool.resolved">): void {
  const ask = own(teller.state.asks, data.request_id);
  teller.change({ asks: without(teller.state.asks, data.request_id) });
  const call = ask?.callId === undefined ? undefined : own(teller.state.calls, ask.callId);
  if (ask?.callId === undefined || !call || call.isAnswered) return;
  const given = fromPayload(data.payload);
  const failed = data.status !== "completed";
  const words = data.content
    .map((part) => (part.type === "text" ? part.text : JSON.stringify(part)))
    .join("\n");
  const content = data.status === "cancelled" ? JSON.stringify({ status: "cancelled" }) : words;
  if (given && teller.state.view.inputs !== true) {
    keep(teller, ask.callId, { ...call, isAnswered: true });
    return;
  }
  if (given || call.isRequest) {
    answer(teller, ask.callId, {
      messageId: given?.messageId ?? `${data.request_id}_result`,
      content,
      failed,
    });
  }
}

function toToolName(name: string): string {
  return name.startsWith(BRIDGE) ? name.slice(BRIDGE.length) : name;
}

/** A call that only its request has told of so far. */
function findRequest(teller: Teller, name: string): string | undefined {
  const { calls } = teller.state;
  const claimed = new Set(Object.values(calls).map(({ alias }) => alias));
  return Object.keys(calls).find(
    (callId) => own(calls, callId)?.isRequest && own(calls, callId)?.name === name && !claimed.has(callId),
  );
}

function callOfItem({ state }: Teller, itemId: string): string | undefined {
  return Object.keys(state.calls).find((callId) => own(state.calls, callId)?.itemId === itemId);
}

function open(teller: Teller, callId: string, call: Call): void {
  const by = attribute(teller, call.parent);
  const message = teller.state.speaking[by.subagentRunId ?? ""];
  teller.say("TOOL_CALL_START", {
    toolCallId: callId,
    toolCallName: call.name,
    ...(message === undefined ? {} : { parentMessageId: message }),
    ...by,
  });
  keep(teller, callId, { ...call, ...(by.subagentRunId === undefined ? {} : { owner: by.subagentRunId }) });
}

function growCall(teller: Teller, callId: string, delta: string): void {
  const call = own(teller.state.calls, callId);
  if (!call?.isOpen || delta === "") return;
  teller.say("TOOL_CALL_ARGS", { toolCallId: callId, delta, ...ownerOf(call) });
  keep(teller, callId, { ...call, arguments: call.arguments + delta });
}

function endCall(teller: Teller, callId: string): void {
  const call = own(teller.state.calls, callId);
  if (!call?.isOpen) return;
  teller.say("TOOL_CALL_END", { toolCallId: callId, ...ownerOf(call) });
  keep(teller, callId, { ...call, isOpen: false });
}

function answer(
  teller: Teller,
  callId: string,
  { messageId, content, failed }: { messageId: string; content: string; failed: boolean },
): void {
  const call = own(teller.state.calls, callId);
  if (!call || call.isAnswered) return;
  endCall(teller, callId);
  endSubagent(teller, call.itemId, { failed, message: content });
  teller.say("TOOL_CALL_RESULT", {
    messageId,
    toolCallId: callId,
    content,
    role: "tool",
    ...ownerOf(call),
    ...(failed ? { metadata: { tanstack: { state: "output-error" } } } : {}),
  });
  keep(teller, callId, { ...(own(teller.state.calls, callId) ?? call), isAnswered: true });
  // What is said next is another message.
  teller.change({ speaking: without(teller.state.speaking, call.owner ?? "") });
}

function keep(teller: Teller, callId: string, call: Call): void {
  teller.change({ calls: { ...teller.state.calls, [callId]: call } });
}
