import { own } from "../transcript.ts";
import { toFailure } from "../acp/failure.ts";
import type { Hand } from "../acp/hand.ts";
import { callPlace, endSpeech, hearChunk, MAIN } from "../acp/speech.ts";
import { finishHeld, seeTool } from "../acp/tools.ts";
import { toUsage } from "../acp/usage.ts";
import { isRecord, type Params, type RpcMessage } from "../rpc.ts";
import { readResponse } from "./response.ts";
import { childCall, childResult, runningCall } from "./subagent.ts";
import { findCall, noteCall } from "./witnessed.ts";

/** What the witness in the CLI's process saw of its model requests (`witness.ts`). */
export function hearTestimony(hand: Hand, message: Extract<RpcMessage, { method: string }>): boolean {
  if (message.method !== TESTIMONY) return false;
  const { params } = message;
  switch (params["event"]) {
    case "request":
      hearRequest(hand, params);
      return true;
    case "call":
      hearCall(hand, params);
      return true;
    case "words":
      hearWords(hand, params);
      return true;
    case "response":
      hearResponse(hand, params);
      return true;
    case "failed":
      hearFailed(hand, params);
      return true;
    default:
      return false;
  }
}

const TESTIMONY = "_sluice/model";

export function isRequest(message: RpcMessage): boolean {
  return (
    message.kind === "notification" && message.method === TESTIMONY && message.params["event"] === "request"
  );
}

/** A request carries what came out of the calls before it, more fully than ACP told it. */
function hearRequest(hand: Hand, { id, model, results, isSummary }: Params): void {
  for (const result of Array.isArray(results) ? results.filter(isRecord) : []) hearResult(hand, result);
  finishHeld(hand);
  hand.note({ aside: { ...hand.state.aside, witness: "yes" } });
  const parent = runningCall(hand);
  hand.scribe.startModel(`request-${String(id)}`, {
    model: typeof model === "string" ? model : undefined,
    ...(parent === undefined ? {} : { parent }),
  });
  if (isSummary === true) hand.note({ aside: { ...hand.state.aside, [SUMMARY]: String(id) } });
}

function hearCall(hand: Hand, { call }: Params): void {
  if (!isRecord(call)) return;
  const parent = runningCall(hand);
  if (parent === undefined) return noteCall(hand, call);
  childCall(hand, parent, call);
}

/** A thought, or a sub-agent's words. */
function hearWords(hand: Hand, { text, thought }: Params): void {
  const parent = runningCall(hand);
  if (thought !== true && parent === undefined) return;
  const kind = thought === true ? "reasoning" : "text";
  const place = parent === undefined ? MAIN : callPlace(parent);
  hearChunk(hand, { content: { type: "text", text } }, { kind, place });
}

function hearResult(hand: Hand, result: Params): void {
  if (childResult(hand, result)) return;
  const { id, name } = result;
  const { held, tools } = hand.state;
  const call = `${String(name)}__${String(id)}`;
  if (held !== undefined) {
    if (held.call === call || (id === undefined && held.call.startsWith(`${String(name)}__`))) {
      finishHeld(hand, readResponse(result));
    }
    return;
  }
  // A tool that does not exist is not heard of in ACP.
  if (own(tools, call) !== undefined || !findCall(hand, { name: String(name), id: String(id) })) return;
  seeTool(hand, { toolCallId: call, ...readResponse(result) }, { place: MAIN, isUpdate: true });
}

function hearResponse(hand: Hand, { id, usage }: Params): void {
  const native = `request-${String(id)}`;
  const counts = isRecord(usage) ? usage : {};
  const total = Number(counts["promptTokenCount"] ?? 0);
  const cached = Number(counts["cachedContentTokenCount"] ?? 0);
  const told = toUsage({
    input_tokens: Math.max(0, total - cached),
    output_tokens: counts["candidatesTokenCount"],
    cache_read_tokens: cached,
    reasoning_tokens: counts["thoughtsTokenCount"],
  });
  hand.scribe.endModel(native, { usage: told });
  const { [SUMMARY]: summary, [ATTEMPT]: _, ...aside } = hand.state.aside;
  hand.note({ aside });
  if (summary !== String(id)) return;
  endSpeech(hand, MAIN);
  hand.scribe.compacted({ trigger: "auto" });
}

const SUMMARY = "summary";
const ATTEMPT = "attempt";

/** It tries again by itself, without a word; whether it has given up, its answer to the prompt will say. */
function hearFailed(hand: Hand, { id, status, message }: Params): void {
  const code = typeof status === "number" ? status : 0;
  const { error } = toFailure({ code, message: typeof message === "string" ? message : `HTTP ${code}` });
  hand.scribe.endModel(`request-${String(id)}`, { error });
  if (error.retryable !== true || hand.state.isCancelled) return;
  const attempt = Number(hand.state.aside[ATTEMPT] ?? 0) + 1;
  hand.note({ aside: { ...hand.state.aside, [ATTEMPT]: String(attempt) } });
  hand.scribe.add({ type: "turn.retrying", data: { turn_id: "", attempt, delay_ms: 0, error } });
}
