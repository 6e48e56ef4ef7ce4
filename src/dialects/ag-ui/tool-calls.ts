import { fromToolServerName, type Item, own, without } from "../../contract/index.ts";
import type { Projectors } from "../shared/projection.ts";
import { growBy, NO_TEXT, restBehind } from "../shared/grown-text.ts";
import { toLines } from "../shared/text.ts";
import type { AgUiProjection } from "./projection.ts";
import { type Call, fromPayload } from "./state.ts";
import { attribute, describeSubagent, endSubagent, toSubagentFields } from "./subagents.ts";

/** The longest arguments that may describe a sub-agent. */
const MOST_ARGUMENTS = 256 * 1024;

const NO_ARGUMENTS = { emitted: NO_TEXT, arguments: "" } as const;

/**
 * Shows the call of an agent's item. The request for an application's tool may have come first: then the call is
 * already shown under the request's id. The call keeps that id as its alias, and its result appears there.
 */
export function startCall(projection: AgUiProjection, item: Item): void {
  const part = item.content.find((part) => part.type === "tool_call");
  if (!part || Object.hasOwn(projection.state.calls, part.call_id)) return;
  const name = fromToolServerName(part.name) ?? part.name;
  const alias = findRequest(projection, name);
  const { parent_id: parent } = projection.event;
  const call = { itemId: item.item_id, name, isAnswered: false, ...(parent === undefined ? {} : { parent }) };
  if (alias !== undefined)
    return keep(projection, part.call_id, { ...call, ...NO_ARGUMENTS, isOpen: false, alias });
  open(projection, part.call_id, { ...call, ...NO_ARGUMENTS, isOpen: true });
  growCall(projection, part.call_id, part.arguments);
}

export function growCallOf(projection: AgUiProjection, itemId: string, delta: string): void {
  const callId = callOfItem(projection, itemId);
  if (callId !== undefined) growCall(projection, callId, delta);
}

/** Emits the rest of the arguments; empty arguments become `{}`. */
export function completeCall(projection: AgUiProjection, item: Item): void {
  startCall(projection, item);
  const part = item.content.find((part) => part.type === "tool_call");
  const call = part && own(projection.state.calls, part.call_id);
  if (!part || !call || call.alias !== undefined || !call.isOpen) return;
  const whole = part.arguments === "" ? "{}" : part.arguments;
  growCall(projection, part.call_id, restBehind(call.emitted, whole) ?? "");
  endCall(projection, part.call_id);
}

export function endCalls(projection: AgUiProjection): void {
  for (const [callId, { isOpen }] of Object.entries(projection.state.calls))
    if (isOpen) endCall(projection, callId);
}

export function projectResult(projection: AgUiProjection, item: Item): void {
  const result = item.content.find((part) => part.type === "tool_result");
  const given = result?.call_id ?? callOfItem(projection, item.parent_id ?? "");
  if (given === undefined) return;
  const callId = own(projection.state.calls, given)?.alias ?? given;
  const failed = item.status === "failed";
  answer(projection, callId, { messageId: item.item_id, content: result?.output ?? "", failed });
}

export const toolProjectors: Projectors<AgUiProjection> = {
  /** An application's tool appears with the agent's item or with the request, whichever comes first. */
  "tool.requested": (projection, { data }) => {
    const { request_id: requestId, name, input, call_id: given } = data;
    const known = given === undefined ? undefined : own(projection.state.calls, given);
    const callId = known?.alias ?? given ?? requestId;
    if (!known) {
      const { parent_id: parent } = projection.event;
      open(projection, callId, {
        itemId: requestId,
        name,
        isAnswered: false,
        ...(parent === undefined ? {} : { parent }),
        ...NO_ARGUMENTS,
        isOpen: true,
        ...(given === undefined ? { isRequest: true } : {}),
      });
      growCall(projection, callId, JSON.stringify(input ?? {}));
      endCall(projection, callId);
    }
    const subagent = own(projection.state.calls, callId)?.subagent;
    const ask = {
      kind: "tool",
      prompt: name,
      callId,
      input,
      ...(subagent === undefined ? {} : { subagent }),
    } as const;
    projection.change({ asks: { ...projection.state.asks, [requestId]: ask } });
    projection.custom(
      "tool-input-available",
      { toolCallId: callId, toolName: name, input: input ?? {} },
      { metadata: { sluice: { requestId, sessionId: projection.event.session_id } } },
    );
  },

  /** Emits the result of a call that no item of the agent answers. A client's own answer is emitted only in a view with inputs. */
  "tool.resolved": (projection, { data }) => {
    const ask = own(projection.state.asks, data.request_id);
    projection.change({ asks: without(projection.state.asks, data.request_id) });
    const call = ask?.callId === undefined ? undefined : own(projection.state.calls, ask.callId);
    if (ask?.callId === undefined || !call || call.isAnswered) return;
    const answeredIn = fromPayload(data.payload);
    const failed = data.status !== "completed";
    const content =
      data.status === "cancelled" ? JSON.stringify({ status: "cancelled" }) : toLines(data.content);
    if (answeredIn && projection.state.view.inputs !== true) {
      keep(projection, ask.callId, { ...call, isAnswered: true });
      return;
    }
    if (answeredIn || call.isRequest) {
      answer(projection, ask.callId, {
        messageId: answeredIn?.messageId ?? `${data.request_id}_result`,
        content,
        failed,
      });
    }
  },
};

/** The id of a call with this name that only its request has shown, and that is not yet the alias of another item. */
function findRequest(projection: AgUiProjection, name: string): string | undefined {
  const { calls } = projection.state;
  const claimed = new Set(Object.values(calls).map(({ alias }) => alias));
  return Object.keys(calls).find(
    (callId) => own(calls, callId)?.isRequest && own(calls, callId)?.name === name && !claimed.has(callId),
  );
}

function callOfItem({ state }: AgUiProjection, itemId: string): string | undefined {
  return Object.keys(state.calls).find((callId) => own(state.calls, callId)?.itemId === itemId);
}

function open(projection: AgUiProjection, callId: string, call: Call): void {
  const by = attribute(projection, call.parent);
  const message = projection.state.speaking[by.subagentRunId ?? ""];
  projection.emit("TOOL_CALL_START", {
    toolCallId: callId,
    toolCallName: call.name,
    ...(message === undefined ? {} : { parentMessageId: message }),
    ...by,
  });
  keep(projection, callId, {
    ...call,
    ...(by.subagentRunId === undefined ? {} : { subagent: by.subagentRunId }),
  });
}

function growCall(projection: AgUiProjection, callId: string, delta: string): void {
  const call = own(projection.state.calls, callId);
  if (!call?.isOpen || delta === "") return;
  projection.emit("TOOL_CALL_ARGS", { toolCallId: callId, delta, ...toSubagentFields(call) });
  const isShort = call.emitted.length + delta.length <= MOST_ARGUMENTS;
  keep(projection, callId, {
    ...call,
    emitted: growBy(call.emitted, delta),
    arguments: isShort ? call.arguments + delta : "",
  });
}

function endCall(projection: AgUiProjection, callId: string): void {
  const call = own(projection.state.calls, callId);
  if (!call?.isOpen) return;
  projection.emit("TOOL_CALL_END", { toolCallId: callId, ...toSubagentFields(call) });
  const described = describeSubagent(call.arguments);
  keep(projection, callId, { ...call, arguments: "", described, isOpen: false });
}

function answer(
  projection: AgUiProjection,
  callId: string,
  { messageId, content, failed }: { messageId: string; content: string; failed: boolean },
): void {
  const call = own(projection.state.calls, callId);
  if (!call || call.isAnswered) return;
  endCall(projection, callId);
  endSubagent(projection, call.itemId, { failed, message: content });
  projection.emit("TOOL_CALL_RESULT", {
    messageId,
    toolCallId: callId,
    content,
    role: "tool",
    ...toSubagentFields(call),
    ...(failed ? { metadata: { tanstack: { state: "output-error" } } } : {}),
  });
  keep(projection, callId, { ...(own(projection.state.calls, callId) ?? call), isAnswered: true });
  // The next text is a new message.
  projection.change({ speaking: without(projection.state.speaking, call.subagent ?? "") });
}

function keep(projection: AgUiProjection, callId: string, call: Call): void {
  projection.change({ calls: { ...projection.state.calls, [callId]: call } });
}
