import { originOf } from "../acp/decode.ts";
import type { AcpReading, NamedTool } from "../acp/dialect.ts";
import { toTextFailure } from "../acp/failure.ts";
import { childAnchor, endSpeech, MAIN, parentOf, tearSpeech } from "../acp/messages.ts";
import { toUsage } from "../acp/turns.ts";
import { isRecord } from "../fields.ts";
import type { Params, RpcMessage } from "../rpc.ts";
import { own, without } from "../transcript.ts";

/** `_x.ai/session_notification`: Grok's additions to ACP's updates. The log needs no other kinds. */
export function readNotification(reading: AcpReading, params: Params): void {
  const { update } = params;
  if (!isRecord(update) || reading.state.isReplaying) return;
  const origin = originOf(reading, params);
  switch (update["sessionUpdate"]) {
    case "tool_call_delta_chunk":
      return readArguments(reading, update, origin);
    case "response_completed":
      return reportModel(reading, update["usage"], origin);
    case "retry_state":
      return readRetry(reading, update, origin);
    case "subagent_spawned":
    case "subagent_finished":
      return readSubagent(reading, update);
    case "auto_compact_started":
      return reading.change({ aside: { ...reading.state.aside, [COMPACTING]: origin } });
    case "auto_compact_completed":
      return readCompacted(reading, update, origin);
    case "image_dropped":
      return reading.scribe.status("image dropped", { detail: notesOf(update) });
    default:
  }
}

export function reportModel(reading: AcpReading, counts: unknown, origin: string): void {
  if (!isRecord(counts)) return;
  const usage = toUsage({
    input_tokens: counts["input_tokens"],
    output_tokens: counts["output_tokens"],
    cache_read_tokens: counts["cache_read_input_tokens"],
    cache_write_tokens: counts["cache_creation_input_tokens"],
    reasoning_tokens: counts["reasoning_tokens"],
  });
  endSpeech(reading, origin);
  reading.scribe.startModel("response", { parent: parentOf(origin) });
  reading.scribe.endModel("response", { usage });
}

/** A delta of a call's arguments. Only the first one names the call. */
function readArguments(reading: AcpReading, update: Params, origin: string): void {
  const { tool_call_id: id, tool_index: index, name, arguments_delta: delta } = update;
  const slot = `writing:${origin}:${String(index)}`;
  if (typeof id === "string" && typeof name === "string") {
    endSpeech(reading, origin);
    reading.scribe.startCall(id, { name, parent: parentOf(origin) });
    reading.change({ aside: { ...reading.state.aside, [slot]: id } });
  }
  const call = reading.state.aside[slot];
  if (call !== undefined && typeof delta === "string") reading.scribe.argumentDelta(call, delta);
}

/** Reports a retry of the main agent's model request. `watchStream` recognises the new stream. */
function readRetry(reading: AcpReading, update: Params, origin: string): void {
  const { type, attempt, max_retries: most, reason } = update;
  if (type !== "retrying" || origin !== MAIN) return;
  const { error } = toTextFailure(typeof reason === "string" ? reason : "the model failed");
  reading.scribe.add({
    type: "turn.retrying",
    data: {
      turn_id: "",
      attempt: Number.isSafeInteger(attempt) ? Number(attempt) : 1,
      ...(Number.isSafeInteger(most) ? { max_attempts: Number(most) } : {}),
      delay_ms: 0,
      error: { ...error, retryable: true },
    },
  });
}

const COMPACTING = "compacting";

/** Grok announces only automatic compactions. */
function readCompacted(reading: AcpReading, { summary_preview: summary }: Params, origin: string): void {
  const { [COMPACTING]: started, ...aside } = reading.state.aside;
  const trigger = started === undefined ? "manual" : "auto";
  reading.change({ aside });
  endSpeech(reading, origin);
  reading.scribe.compacted(
    { trigger, ...(typeof summary === "string" ? { summary } : {}) },
    { parent: parentOf(origin) },
  );
}

function notesOf({ notes }: Params): string {
  return Array.isArray(notes) ? notes.map(String).join("\n") : "";
}

const SPAWN = "spawn_subagent";

/** A sub-agent has its own session. Its facts belong to the call that started it. */
function readSubagent(reading: AcpReading, update: Params): void {
  const { sessionUpdate: type, child_session_id: child, description } = update;
  if (typeof child !== "string") return;
  if (type === "subagent_finished") return endSpeech(reading, child);
  const parent = findSpawn(reading, typeof description === "string" ? description : "");
  if (parent !== undefined) reading.scribe.anchor(childAnchor(child), { item: parent, name: SPAWN });
}

/** Notes the items of calls that start sub-agents, which may outlive the calls. */
export function noteSpawn(reading: AcpReading, call: string, { name, input }: NamedTool): void {
  if (name !== SPAWN) return;
  const item = own(reading.scribe.transcript.calls, call)?.item;
  const description = (input as { description?: unknown } | undefined)?.description;
  if (item === undefined) return;
  reading.change({ aside: { ...reading.state.aside, [`spawn:${item}`]: String(description ?? "") } });
}

/** The oldest call with that description, else the oldest call: nothing else connects a sub-agent with its call. */
function findSpawn(reading: AcpReading, description: string): string | undefined {
  const waiting = Object.entries(reading.state.aside).filter(([key]) => key.startsWith("spawn:"));
  const found = waiting.find(([, said]) => said === description) ?? waiting[0];
  if (!found) return undefined;
  reading.change({ aside: without(reading.state.aside, found[0]) });
  return found[0].slice("spawn:".length);
}

/** Marks a text as cut if it is open when another stream begins: Grok now repeats it. */
export function watchStream(reading: AcpReading, message: RpcMessage): void {
  if (message.kind !== "notification" || message.method !== "session/update") return;
  const { _meta: meta, update } = message.params;
  const started = isRecord(meta) ? meta["streamStartMs"] : undefined;
  if (typeof started !== "number" || !isRecord(update) || !isChunk(update["sessionUpdate"])) return;
  const origin = originOf(reading, message.params);
  const slot = `stream:${origin}`;
  const stream = String(started);
  if (own(reading.state.aside, slot) === stream) return;
  tearSpeech(reading, origin);
  reading.change({ aside: { ...reading.state.aside, [slot]: stream } });
}

function isChunk(type: unknown): boolean {
  return type === "agent_message_chunk" || type === "agent_thought_chunk";
}
