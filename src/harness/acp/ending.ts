import type { EventData } from "../../contract/index.ts";
import type { Params, RpcError } from "../rpc.ts";
import type { Failure } from "../failure.ts";
import { toFailure } from "./failure.ts";
import type { Hand } from "./hand.ts";
import { toRequest } from "./request.ts";
import { endAllSpeech, isAnchor } from "./speech.ts";
import { closeDenied, finishHeld } from "./tools.ts";
import { tellUsage } from "./usage.ts";

type End = Omit<EventData<"turn.ended">, "turn_id">;

/** Marks a prompt that carries what was said with a rejection: no new turn. */
export const WORDS = "~words";

/** The answer to a prompt: the turn is over, unless words wait that the agent has not heard yet. */
export function endPrompt(hand: Hand, id: string, result: Params): void {
  // What an interrupt cut off is closed as such by the engine.
  if (!hand.state.isCancelled) endAllSpeech(hand);
  finishHeld(hand);
  closeDenied(hand);
  tellUsage(hand, result);
  if (hand.state.words.length > 0 && !hand.state.isCancelled) return sayWords(hand, id);
  const details = hand.dialect.endDetails?.(result);
  closeTurn(hand, { ...toEnd(hand, result["stopReason"]), ...(details === undefined ? {} : { details }) });
}

/** The agent could not answer. */
export function failPrompt(hand: Hand, error: RpcError): void {
  finishHeld(hand);
  closeDenied(hand);
  if (hand.state.isCancelled) return closeTurn(hand, { status: "interrupted", stop_reason: "interrupted" });
  failTurn(hand, toFailure(error));
}

export function failTurn(hand: Hand, { error, stopReason }: Failure): void {
  if (stopReason === "max_tokens") return closeTurn(hand, { status: "completed", stop_reason: stopReason });
  const { code, message } = error;
  hand.scribe.add({ type: "error", data: { code, message } });
  closeTurn(hand, { status: "failed", stop_reason: stopReason, error });
}

function closeTurn(hand: Hand, end: End): void {
  const anchors = Object.entries(hand.scribe.transcript.calls).filter(([native]) => isAnchor(native));
  hand.scribe.endTurn(end);
  for (const [native, { item, name }] of anchors) hand.anchor(native, { item, name });
  hand.note({ tools: {}, denied: [], words: [], speaking: {}, held: undefined, isCancelled: undefined });
  hand.dialect.ended?.(hand);
}

function toEnd({ state }: Hand, reason: unknown): End {
  switch (reason) {
    case "cancelled":
      // A turn that ends because somebody denied a call was not interrupted.
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

/** Nothing in the protocol carries a reason with a rejection, so it follows as the turn's next prompt. */
function sayWords(hand: Hand, id: string): void {
  const { session = "", words } = hand.state;
  const prompt = [{ type: "text", text: words.join("\n") }];
  hand.note({ words: [] });
  hand.replies.push(toRequest(`${id}${WORDS}`, "session/prompt", { sessionId: session, prompt }));
}
