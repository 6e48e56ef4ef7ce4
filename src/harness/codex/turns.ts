import { own, without } from "../transcript.ts";
import { isRecord, type Params } from "../rpc.ts";
import { declineLine } from "./answers.ts";
import { type CodexFailure, toFailure } from "./failure.ts";
import { change, changeAgent, ensureModel, isMain, modelKey, placeOf, type Reading } from "./reading.ts";
import { askForPlan, closePlanCall } from "./plan.ts";
import { asThread } from "./texts.ts";

export function startTurn(reading: Reading, params: Params): void {
  const thread = asThread(params["threadId"]);
  const { turn } = params;
  const id = isRecord(turn) && typeof turn["id"] === "string" ? turn["id"] : undefined;
  if (id === undefined) return;
  if (isMain(reading, thread)) {
    change(reading, { turn: id });
    closePlanCall(reading);
    if (!reading.state.prompted) return;
  } else changeAgent(reading, thread ?? "", { turn: id });
  ensureModel(reading, thread);
}

/** A turn of some thread is over; that of the conversation ends ours, once. */
export function endTurn(reading: Reading, params: Params): void {
  const thread = asThread(params["threadId"]);
  const turn = isRecord(params["turn"]) ? params["turn"] : {};
  if (!isMain(reading, thread)) return endAgentTurn(reading, thread ?? "", turn);
  const { state, scribe } = reading;
  const { turn: _, ...idle } = state;
  reading.state = idle;
  if (!state.prompted) return;
  if (
    turn["status"] === "completed" &&
    state.plan !== undefined &&
    state.opening.asksForPlan &&
    state.opening.plans
  ) {
    return askForPlan(reading, state.plan);
  }
  if (turn["status"] === "failed") return halt(reading, toFailure(turn["error"]));
  const isCut = turn["status"] === "interrupted";
  scribe.endModel(modelKey(reading, thread), {});
  finish(reading, isCut ? { status: "interrupted", stop_reason: "interrupted" } : COMPLETED);
}

const COMPLETED = { status: "completed", stop_reason: "end_turn" } as const;

/** A model at its capacity is the one failure that Codex gives up on at once: whether to try again is decided elsewhere. */
function halt(reading: Reading, failure: CodexFailure): void {
  const { code, message } = failure.error;
  if (code !== "overloaded" || !reading.state.driven) return failTurn(reading, failure);
  reading.scribe.endModel(modelKey(reading, undefined), { error: failure.error });
  reading.scribe.add({ type: "model.failed", code, message, retryable: true });
  change(reading, { halted: true });
}

/** The one end of the prompt that runs. */
export function finish(reading: Reading, outcome: Parameters<Reading["scribe"]["endTurn"]>[0]): void {
  const { scribe, state } = reading;
  if (!state.prompted) return;
  // A sub-agent that still asks has lost the turn in which it could be answered.
  for (const ask of Object.values(scribe.transcript.asks)) {
    if (ask.kind !== "plan" && ask.thread !== state.thread) reading.replies.push(declineLine(ask));
  }
  const { plan: _, spawning: __, ...rest } = state;
  reading.state = { ...rest, prompted: false, halted: false, calls: {} };
  scribe.endTurn(outcome);
}

export function failTurn(reading: Reading, { error, stopReason, details }: CodexFailure): void {
  const { scribe } = reading;
  const more = details === undefined ? {} : { details };
  scribe.endModel(modelKey(reading, undefined), { error });
  if (stopReason === "max_tokens" || stopReason === "refusal") {
    return finish(reading, {
      status: "completed",
      stop_reason: stopReason,
      details: { message: error.message },
    });
  }
  scribe.add({ type: "error", data: { code: error.code, message: error.message, ...more } });
  finish(reading, { status: "failed", stop_reason: stopReason, error, ...more });
}

function endAgentTurn(reading: Reading, thread: string, turn: Params): void {
  const { turn: _, ...agent } = own(reading.state.agents, thread) ?? {};
  change(reading, { agents: { ...without(reading.state.agents, thread), [thread]: agent } });
  const place = placeOf(reading, thread);
  if (turn["status"] !== "failed") return void reading.scribe.endModel(modelKey(reading, thread), {});
  const { error } = toFailure(turn["error"]);
  reading.scribe.endModel(modelKey(reading, thread), { error });
  reading.scribe.add({ type: "error", data: { code: error.code, message: error.message } }, place);
}

/** A failed request that Codex tries again; one that it does not is told again with the turn's end. */
export function hearError(reading: Reading, params: Params): void {
  const thread = asThread(params["threadId"]);
  if (params["willRetry"] === true) return retry(reading, params["error"], thread);
  if (reading.state.prompted || !isMain(reading, thread)) return;
  const { error } = toFailure(params["error"]);
  reading.scribe.add({ type: "error", data: { code: error.code, message: error.message } });
}

/** `Reconnecting... 2/3`: what was being said will be said again. */
export function retry(reading: Reading, value: unknown, thread: string | undefined): void {
  const { scribe } = reading;
  const told = isRecord(value) ? value : {};
  const text = String(told["message"] ?? "");
  const [, attempt = "1", most] = /(\d+)\/(\d+)/.exec(text) ?? [];
  const cause = typeof told["additionalDetails"] === "string" ? told["additionalDetails"] : text;
  const failure = toFailure({ ...told, message: cause });
  const error = { ...failure.error, retryable: true };
  const place = placeOf(reading, thread);
  scribe.tear(place);
  scribe.endModel(modelKey(reading, thread), { error });
  if (!isMain(reading, thread)) return scribe.status("retrying", { detail: cause, ...place });
  const data = {
    turn_id: "",
    attempt: Number(attempt),
    ...(most === undefined ? {} : { max_attempts: Number(most) }),
    delay_ms: FIRST_BACKOFF_MS * 2 ** Math.min(20, Number(attempt) - 1),
    error,
  };
  scribe.add({ type: "turn.retrying", data });
}

/** Codex's own, doubled with every try; it does not tell how long it waits. */
const FIRST_BACKOFF_MS = 200;
