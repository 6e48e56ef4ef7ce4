import { own } from "../../contract/ownKeys.ts";
import type { EventOf } from "../../contract/index.ts";
import { toResultBlocks } from "./blocks.ts";
import { findHeld, isPolicy, markClient, tellClientCall } from "./calls.ts";
import { toSentEvents } from "./payload.ts";
import type { Request } from "./state.ts";
import { without, type Teller } from "./teller.ts";

/** The tool as which a question of the agent's appears: clients of this dialect have no other word for it. */
export const QUESTION_TOOL = "ask_user_question";

export function tellPermissionRequested(
  teller: Teller,
  { data, sequence }: EventOf<"permission.requested">,
): void {
  const { call_id: given, name, input } = (data.metadata ?? {}) as Record<string, unknown>;
  const callId = typeof given === "string" ? given : undefined;
  const held = findHeld(teller, { callId, name: data.action });
  const tool = held?.name ?? (typeof name === "string" ? name : data.action);
  teller.change({
    asked: {
      permissionId: data.permission_id,
      callId: held?.callId ?? callId ?? data.permission_id,
      name: tool,
      input: held?.input ?? input,
      sequence,
    },
  });
}

export function tellPermissionResolved(teller: Teller, { data }: EventOf<"permission.resolved">): void {
  const request = close(teller, data.permission_id);
  const { by, payload, message } = (data.metadata ?? {}) as Record<string, unknown>;
  if (!request || isPolicy(by)) return;
  const isDenied = data.status === "denied";
  const words = {
    result: isDenied ? "deny" : "allow",
    ...(isDenied && typeof message === "string" ? { deny_message: message } : {}),
  };
  const [{ type: _, ...sent } = { type: "" }] = toSentEvents(payload);
  teller.say("user.tool_confirmation", { ...words, ...sent, tool_use_id: request.eventId });
}

export function tellToolRequested(teller: Teller, { data, sequence }: EventOf<"tool.requested">): void {
  const { request_id: id, name, input, call_id: callId, builtin = false } = data;
  const told = callId === undefined ? undefined : own(teller.state.calls, callId);
  if (told && callId !== undefined) {
    markClient(teller, callId);
    return open(teller, id, { eventId: told.eventId, kind: told.kind === "custom" ? "custom" : "tool" });
  }
  const held = findHeld(teller, { callId, name });
  const made = { callId: held?.callId ?? callId ?? id, name, input, sequence };
  const kind = tellClientCall(teller, made, builtin);
  open(teller, id, { eventId: teller.idOf(sequence), kind });
}

export function tellToolResolved(teller: Teller, { data, sequence }: EventOf<"tool.resolved">): void {
  const request = close(teller, data.request_id);
  if (!request || data.status === "cancelled") return;
  const isCustom = request.kind === "custom";
  const type = isCustom ? "user.custom_tool_result" : "user.tool_result";
  const reference = { [isCustom ? "custom_tool_use_id" : "tool_use_id"]: request.eventId };
  const [{ type: _, ...sent } = unsent(data), ...others] = toSentEvents(data.payload);
  teller.say(type, { ...sent, ...reference });
  for (const [index, { type, ...fields }] of others.entries())
    teller.say(type, fields, teller.idOf(sequence, index + 1));
}

export function tellQuestionRequested(teller: Teller, { data }: EventOf<"question.requested">): void {
  const { question_id: id, prompt, options } = data;
  const eventId = teller.say("agent.custom_tool_use", { name: QUESTION_TOOL, input: { prompt, options } });
  open(teller, id, { eventId, kind: "question" });
}

export function tellQuestionResolved(teller: Teller, { data }: EventOf<"question.resolved">): void {
  const request = close(teller, data.question_id);
  if (!request || data.status !== "answered") return;
  const content = [{ type: "text", text: data.response ?? "" }];
  teller.say("user.custom_tool_result", { custom_tool_use_id: request.eventId, content });
}

/** Only a person's interrupt is one; what the engine stops for its own reasons is told by the turn's end. */
export function tellInterrupt(teller: Teller, { data }: EventOf<"interrupt.requested">): void {
  if (data.payload === undefined && ENGINE.has(data.by ?? "")) return;
  const [{ type: _, ...sent } = { type: "" }] = toSentEvents(data.payload);
  teller.say("user.interrupt", sent);
}

const ENGINE: ReadonlySet<string> = new Set(["timeout", "silence", "retries", "daemon"]);

function unsent({ content, status }: EventOf<"tool.resolved">["data"]): {
  type: string;
  [field: string]: unknown;
} {
  return { type: "", content: toResultBlocks(content), is_error: status === "failed" };
}

function open(teller: Teller, id: string, request: Request): void {
  teller.change({ requests: { ...teller.state.requests, [id]: request } });
}

function close(teller: Teller, id: string): Request | undefined {
  const request = own(teller.state.requests, id);
  if (request) teller.change({ requests: without(teller.state.requests, id) });
  return request;
}
