import { type EventOf, own, without } from "../../contract/index.ts";
import type { Projectors } from "../shared/projection.ts";
import { toResultBlocks } from "./items.ts";
import { type AnthropicProjection, SENT_EVENT, type SentPayload, toSentEvents } from "./projection.ts";
import type { Request } from "./state.ts";
import { emitClientCall, findHeld, isResolvedByNobody, markClient } from "./tool-calls.ts";

/** The name of the tool call that stands for an agent's question: this dialect has no questions. */
const QUESTION_TOOL = "ask_user_question";

/** The agent's requests, and the answers of clients. */
export const requestProjectors: Projectors<AnthropicProjection> = {
  "permission.requested": (projection, { data, sequence }) => {
    const { call_id: given, name, input } = (data.metadata ?? {}) as Record<string, unknown>;
    const callId = typeof given === "string" ? given : undefined;
    const held = findHeld(projection, { callId, name: data.action });
    const tool = held?.name ?? (typeof name === "string" ? name : data.action);
    projection.change({
      asked: {
        permissionId: data.permission_id,
        callId: held?.callId ?? callId ?? data.permission_id,
        name: tool,
        input: held?.input ?? input,
        sequence,
      },
    });
  },

  "permission.resolved": (projection, { data }) => {
    const request = close(projection, data.permission_id);
    const { by, payload, message } = (data.metadata ?? {}) as Record<string, unknown>;
    if (!request || isResolvedByNobody(by)) return;
    const isDenied = data.status === "denied";
    const decision = {
      result: isDenied ? "deny" : "allow",
      ...(isDenied && typeof message === "string" ? { deny_message: message } : {}),
    };
    const [sent] = toSentEvents(payload);
    projection.echo("user.tool_confirmation", {
      ...decision,
      ...fieldsOf(sent),
      tool_use_id: request.eventId,
    });
  },

  "tool.requested": (projection, { data, sequence }) => {
    const { request_id: id, name, input, call_id: callId, builtin = false } = data;
    const call = callId === undefined ? undefined : own(projection.state.calls, callId);
    if (call && callId !== undefined) {
      markClient(projection, callId);
      return open(projection, id, {
        eventId: call.eventId,
        kind: call.kind === "custom" ? "custom" : "tool",
      });
    }
    const held = findHeld(projection, { callId, name });
    const made = { callId: held?.callId ?? callId ?? id, name, input, sequence };
    const kind = emitClientCall(projection, made, builtin);
    open(projection, id, { eventId: projection.idOf(sequence), kind });
  },

  "tool.resolved": (projection, { data, sequence }) => {
    const request = close(projection, data.request_id);
    if (!request || data.status === "cancelled") return;
    const isCustom = request.kind === "custom";
    const type = isCustom ? "user.custom_tool_result" : "user.tool_result";
    const reference = { [isCustom ? "custom_tool_use_id" : "tool_use_id"]: request.eventId };
    const [sent, ...others] = toSentEvents(data.payload);
    const result = sent ? fieldsOf(sent) : toPlainResult(data);
    projection.echo(type, { ...result, ...reference });
    echoOthers(projection, sequence, others);
  },

  "question.requested": (projection, { data }) => {
    const { question_id: id, prompt, options } = data;
    const eventId = projection.emit("agent.custom_tool_use", {
      name: QUESTION_TOOL,
      input: { prompt, options },
    });
    open(projection, id, { eventId, kind: "question" });
  },

  /** Keeps the client's own form of an answer. The next event is the answer itself. */
  custom: (projection, { data, sequence }) => {
    if (data.name === SENT_EVENT) projection.change({ sent: { sequence, payload: data.value } });
  },

  "question.resolved": (projection, { data, sequence }) => {
    const request = close(projection, data.question_id);
    const { sent: kept } = projection.state;
    if (kept) projection.change({ sent: null });
    if (!request || data.status !== "answered") return;
    const [sent, ...others] = toSentEvents(kept?.sequence === sequence - 1 ? kept.payload : undefined);
    const plain = { content: [{ type: "text", text: data.response ?? "" }] };
    const result = sent ? fieldsOf(sent) : plain;
    projection.echo("user.custom_tool_result", { custom_tool_use_id: request.eventId, ...result });
    echoOthers(projection, sequence, others);
  },

  /** Only a person's interrupt appears; the turn's end reports a stop by the engine. */
  "interrupt.requested": (projection, { data }) => {
    if (data.payload === undefined && ENGINE_INTERRUPTS.has(data.by ?? "")) return;
    const [sent] = toSentEvents(data.payload);
    projection.echo("user.interrupt", fieldsOf(sent));
  },
};

/** Echoes the events that the client sent together with the first one. */
function echoOthers(projection: AnthropicProjection, sequence: number, others: readonly SentPayload[]): void {
  for (const [index, { type, ...fields }] of others.entries())
    projection.echo(type, fields, projection.idOf(sequence, index + 1));
}

const ENGINE_INTERRUPTS: ReadonlySet<string> = new Set(["timeout", "silence", "retries", "daemon"]);

/** The fields of a client's event, without its type. */
function fieldsOf(event: SentPayload | undefined): object {
  const { type: _, ...fields } = event ?? { type: "" };
  return fields;
}

/** The result of an answer that another dialect sent. */
function toPlainResult({ content, status }: EventOf<"tool.resolved">["data"]): object {
  return { content: toResultBlocks(content), is_error: status === "failed" };
}

function open(projection: AnthropicProjection, id: string, request: Request): void {
  projection.change({ requests: { ...projection.state.requests, [id]: request } });
}

function close(projection: AnthropicProjection, id: string): Request | undefined {
  const request = own(projection.state.requests, id);
  if (request) projection.change({ requests: without(projection.state.requests, id) });
  return request;
}
