import type { EventData } from "../../contract/index.ts";
import { type Params, type RpcError, toRequest } from "../rpc.ts";
import type { Failure } from "../failure.ts";
import { toFailure } from "./failure.ts";
import type { AcpReading } from "./dialect.ts";
import { endAllSpeech, isAnchor } from "./messages.ts";
import { closeDenied, finishHeld } from "./tools.ts";
import { reportUsage } from "./usage.ts";

type End = Omit<EventData<"turn.ended">, "turn_id">;

/** The suffix of a prompt that carries the message of a rejection. It begins no turn. */
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

/** The prompt failed. */
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
  const { code, message } = error;
  reading.scribe.add({ type: "error", data: { code, message } });
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
