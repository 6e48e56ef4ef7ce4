import { toTextFailure } from "../acp/failure.ts";
import type { Hand } from "../acp/hand.ts";
import { endSpeech, MAIN, parentOf } from "../acp/speech.ts";
import { toUsage } from "../acp/usage.ts";
import { placeOf } from "../acp/updates.ts";
import { isRecord, type Params } from "../rpc.ts";
import { hearSubagent } from "./subagent.ts";

/** `_x.ai/session_notification`: what Grok tells beside ACP's own updates. Other kinds change nothing in a log. */
export function hearNotification(hand: Hand, params: Params): void {
  const { update } = params;
  if (!isRecord(update) || hand.state.isReplaying) return;
  const place = placeOf(hand, params);
  switch (update["sessionUpdate"]) {
    case "tool_call_delta_chunk":
      return hearArguments(hand, update, place);
    case "response_completed":
      return tellModel(hand, update["usage"], place);
    case "retry_state":
      return hearRetry(hand, update, place);
    case "subagent_spawned":
    case "subagent_finished":
      return hearSubagent(hand, update);
    case "auto_compact_started":
      return hand.note({ aside: { ...hand.state.aside, [COMPACTING]: place } });
    case "auto_compact_completed":
      return hearCompacted(hand, update, place);
    case "image_dropped":
      return hand.scribe.status("image dropped", { detail: notesOf(update) });
    default:
  }
}

/** One model request, told when it is over. */
export function tellModel(hand: Hand, counts: unknown, place: string): void {
  if (!isRecord(counts)) return;
  const usage = toUsage({
    input_tokens: counts["input_tokens"],
    output_tokens: counts["output_tokens"],
    cache_read_tokens: counts["cache_read_input_tokens"],
    cache_write_tokens: counts["cache_creation_input_tokens"],
    reasoning_tokens: counts["reasoning_tokens"],
  });
  endSpeech(hand, place);
  hand.scribe.startModel("response", { parent: parentOf(place) });
  hand.scribe.endModel("response", { usage });
}

/** Arguments as the model writes them; only the first piece names its call. */
function hearArguments(hand: Hand, update: Params, place: string): void {
  const { tool_call_id: id, tool_index: index, name, arguments_delta: delta } = update;
  const slot = `writing:${place}:${String(index)}`;
  if (typeof id === "string" && typeof name === "string") {
    endSpeech(hand, place);
    hand.scribe.startCall(id, { name, parent: parentOf(place) });
    hand.note({ aside: { ...hand.state.aside, [slot]: id } });
  }
  const call = hand.state.aside[slot];
  if (call !== undefined && typeof delta === "string") hand.scribe.argumentDelta(call, delta);
}

/** The request is tried again; where its stream was cut, the next one shows by its number. */
function hearRetry(hand: Hand, update: Params, place: string): void {
  const { type, attempt, max_retries: most, reason } = update;
  if (type !== "retrying" || place !== MAIN) return;
  const { error } = toTextFailure(typeof reason === "string" ? reason : "the model failed");
  hand.scribe.add({
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

/** Only what it starts by itself is announced. */
function hearCompacted(hand: Hand, { summary_preview: summary }: Params, place: string): void {
  const { [COMPACTING]: started, ...aside } = hand.state.aside;
  const trigger = started === undefined ? "manual" : "auto";
  hand.note({ aside });
  endSpeech(hand, place);
  hand.scribe.compacted(
    { trigger, ...(typeof summary === "string" ? { summary } : {}) },
    { parent: parentOf(place) },
  );
}

function notesOf({ notes }: Params): string {
  return Array.isArray(notes) ? notes.map(String).join("\n") : "";
}
