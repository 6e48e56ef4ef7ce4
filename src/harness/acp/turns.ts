import type { EventData, Usage } from "../../contract/index.ts";
import type { Failure } from "../failure.ts";
import { isRecord } from "../fields.ts";
import { type Params, type RpcError, toRequest } from "../rpc.ts";
import type { AcpReading, ModelUsage } from "./dialect.ts";
import { toFailure } from "./failure.ts";
import { endAllSpeech, isAnchor } from "./messages.ts";
import { closeDenied, finishHeld } from "./tools.ts";

type End = Omit<EventData<"turn.ended">, "turn_id">;

/** The suffix of the id of a prompt that carries the message of a rejection. Such a prompt begins no turn. */
export const FEEDBACK = "~words";

/** The answer to a prompt ends the turn, unless a message of a rejection waits. */
export function endPrompt(reading: AcpReading, id: string, result: Params): void {
  // After an interrupt the engine closes the open texts.
  if (!reading.state.isCancelled) endAllSpeech(reading);
  finishHeld(reading);
  closeDenied(reading);
  reportUsage(reading, result);
  if (reading.state.words.length > 0 && !reading.state.isCancelled) return sendFeedback(reading, id);
  const details = reading.dialect.endDetails?.(result);
  closeTurn(reading, {
    ...toEnd(reading, result["stopReason"]),
    ...(details === undefined ? {} : { details }),
  });
}

export function failPrompt(reading: AcpReading, error: RpcError): void {
  finishHeld(reading);
  closeDenied(reading);
  if (reading.state.isCancelled)
    return closeTurn(reading, { status: "interrupted", stop_reason: "interrupted" });
  failTurn(reading, toFailure(error));
}

export function failTurn(reading: AcpReading, { error, stopReason }: Failure): void {
  if (stopReason === "max_tokens")
    return closeTurn(reading, { status: "completed", stop_reason: stopReason });
  reading.scribe.error(error);
  closeTurn(reading, { status: "failed", stop_reason: stopReason, error });
}

function closeTurn(reading: AcpReading, end: End): void {
  const anchors = Object.entries(reading.scribe.transcript.calls).filter(([native]) => isAnchor(native));
  reading.scribe.endTurn(end);
  for (const [native, { item, name }] of anchors) reading.scribe.anchor(native, { item, name });
  reading.change({ tools: {}, denied: [], words: [], speaking: {}, held: undefined, isCancelled: undefined });
  reading.dialect.ended?.(reading);
}

function toEnd({ state }: AcpReading, reason: unknown): End {
  switch (reason) {
    case "cancelled":
      // A turn that ends because of a denied call was not interrupted.
      return state.isCancelled
        ? { status: "interrupted", stop_reason: "interrupted" }
        : { status: "completed", stop_reason: "end_turn" };
    case "max_tokens":
    case "refusal":
      return { status: "completed", stop_reason: reason };
    case "max_turn_requests":
      return { status: "completed", stop_reason: "max_turns" };
    default:
      return { status: "completed", stop_reason: "end_turn" };
  }
}

/** A rejection has no field for a message, so the message follows as the turn's next prompt. */
function sendFeedback(reading: AcpReading, id: string): void {
  const { session = "", words } = reading.state;
  const prompt = [{ type: "text", text: words.join("\n") }];
  reading.change({ words: [] });
  reading.replies.push(toRequest(`${id}${FEEDBACK}`, "session/prompt", { sessionId: session, prompt }));
}

/** Reports the usage of a turn, for agents that count whole turns. */
function reportUsage(reading: AcpReading, result: Params): void {
  const told = reading.dialect.usage?.(result, reading) ?? turnUsage(result);
  const cost = costOfTurn(reading);
  const all = cost === undefined ? told : withCost(told, cost);
  for (const [index, { model, usage }] of all.entries()) {
    const native = `turn-${index}`;
    reading.scribe.startModel(native, { model });
    reading.scribe.endModel(native, { usage });
  }
}

/** The counts above zero; undefined without any. */
export function toUsage(counts: { readonly [K in keyof Usage]?: unknown }): Usage | undefined {
  const entries = Object.entries(counts).filter(
    (entry): entry is [string, number] => typeof entry[1] === "number" && entry[1] > 0,
  );
  return entries.length === 0 ? undefined : (Object.fromEntries(entries) as Usage);
}

function turnUsage(result: Params): ModelUsage[] {
  const { usage } = result;
  if (!isRecord(usage)) return [];
  const counts = toUsage({
    input_tokens: usage["inputTokens"],
    output_tokens: usage["outputTokens"],
    cache_read_tokens: usage["cachedReadTokens"],
    cache_write_tokens: usage["cachedWriteTokens"],
    reasoning_tokens: usage["thoughtTokens"],
  });
  return counts === undefined ? [] : [{ usage: counts }];
}

/** The cost of the turn: the session's cost without that of earlier turns. */
function costOfTurn(reading: AcpReading): number | undefined {
  const { total, told } = reading.state.cost;
  if (total <= told) return undefined;
  reading.change({ cost: { total, told: total } });
  // Rounded: the difference of two decimal fractions may have spurious digits.
  return Number((total - told).toFixed(9));
}

function withCost(told: readonly ModelUsage[], cost: number): readonly ModelUsage[] {
  const [first = { usage: {} }, ...others] = told;
  return [{ ...first, usage: { ...first.usage, cost_usd: cost } }, ...others];
}
