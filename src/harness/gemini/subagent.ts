import type { Hand } from "../acp/hand.ts";
import { outputOf } from "../acp/outcome.ts";
import { callPlace, endSpeech } from "../acp/speech.ts";
import type { Params } from "../rpc.ts";
import { readResponse } from "./response.ts";

/** The call that runs now: it runs them one after the other, so what the model is asked meanwhile is asked by it. */
export function runningCall(hand: Hand): string | undefined {
  return Object.entries(hand.state.tools).find(
    ([id, notes]) => isRunning(hand, id) && notes.isSettled && !notes.isDone,
  )?.[0];
}

/** A sub-agent's own call. */
export function childCall(hand: Hand, parent: string, call: Params): void {
  const { id, name, args } = call;
  endSpeech(hand, callPlace(parent));
  hand.scribe.call(`${parent}/${String(id ?? name)}`, { name: String(name), input: args ?? {}, parent });
}

/** What came out of it, if it is one of a sub-agent's. */
export function childResult(hand: Hand, result: Params): boolean {
  const parent = runningCall(hand);
  const native = `${parent ?? ""}/${String(result["id"] ?? result["name"])}`;
  if (parent === undefined || !hand.scribe.hasCall(native)) return false;
  const { status, rawOutput } = readResponse(result);
  return hand.scribe.result(native, { output: outputOf(undefined, rawOutput), failed: status === "failed" });
}

/** Asked for is not running; held is over. */
function isRunning({ state }: Hand, id: string): boolean {
  const isAsked = Object.values(state.transcript.asks).some(({ call }) => call === id);
  return !isAsked && state.held?.call !== id && !state.denied.includes(id);
}
