import type { EventData } from "../../contract/index.ts";
import type { Scribe } from "../scribe.ts";
import type { Failure } from "../failure.ts";
import { toFailure } from "./failure.ts";
import { type AmpAsk, type AmpState, atTurnsEdge } from "./state.ts";
import { toUsage } from "./usage.ts";

type Ending = Omit<EventData<"turn.ended">, "turn_id">;

const STOPS: Readonly<Record<string, Ending["stop_reason"]>> = {
  end_turn: "end_turn",
  stop_sequence: "end_turn",
  max_tokens: "max_tokens",
  refusal: "refusal",
};

/**
 * The model's last words end the turn: with its input open Amp keeps its `result` until the input is closed,
 * or gives one per turn, and both have to work.
 */
export function endByStop(state: AmpState, reason: unknown, scribe: Scribe<AmpAsk>): AmpState {
  const stop = typeof reason === "string" && Object.hasOwn(STOPS, reason) ? STOPS[reason] : undefined;
  if (stop === undefined || state.settled || state.steering > 0) return state;
  scribe.endTurn({ status: "completed", stop_reason: stop });
  return { ...state, ...atTurnsEdge, settled: true, owed: true };
}

/** `result`, the last line of a run: it ends the turn unless the model's words did already. */
export function endByResult(
  state: AmpState,
  value: Readonly<Record<string, unknown>>,
  scribe: Scribe<AmpAsk>,
): AmpState {
  const isLate = state.settled || (state.owed && !state.heard);
  const failure = failureOf(value);
  if (isLate) {
    if (failure)
      scribe.add({ type: "error", data: { code: failure.error.code, message: failure.error.message } });
    return { ...state, owed: false };
  }
  tellDenials(value["permission_denials"], scribe);
  tellUsage(state, value, scribe);
  if (failure) return failTurn(state, failure, scribe);
  scribe.endTurn({ status: "completed", stop_reason: "end_turn" });
  return { ...state, ...atTurnsEdge, settled: true };
}

/** A failed turn says why, and then ends. */
export function failTurn(state: AmpState, failure: Failure, scribe: Scribe<AmpAsk>): AmpState {
  const { error, stopReason } = failure;
  scribe.add({ type: "error", data: { code: error.code, message: error.message } });
  if (state.settled) return state;
  scribe.endTurn({ status: "failed", stop_reason: stopReason, error });
  return { ...state, ...atTurnsEdge, settled: true };
}

function failureOf(value: Readonly<Record<string, unknown>>): Failure | undefined {
  const { subtype, is_error: isError, error, result } = value;
  if (subtype === "error_max_turns") {
    const message = typeof error === "string" && error !== "" ? error : "Amp reached its limit of turns";
    return { error: { code: "max_turns", message }, stopReason: "max_turns" };
  }
  if (isError !== true && (subtype === "success" || subtype === undefined)) return undefined;
  const said = [error, result].find((words) => typeof words === "string" && words !== "");
  return toFailure(typeof said === "string" ? said : `Amp failed: ${String(subtype)}`);
}

/** What Amp refused by its own rules, where it says so. */
function tellDenials(denials: unknown, scribe: Scribe<AmpAsk>): void {
  if (!Array.isArray(denials) || denials.length === 0) return;
  const names = denials.map((denial) => (typeof denial === "string" ? denial : JSON.stringify(denial)));
  scribe.status("permission denied", { detail: names.join(", ") });
}

function tellUsage(
  state: AmpState,
  { usage: native }: Readonly<Record<string, unknown>>,
  scribe: Scribe<AmpAsk>,
): void {
  const usage = state.counted ? undefined : toUsage(native);
  if (!usage) return;
  scribe.startModel("result");
  scribe.endModel("result", { usage });
}
