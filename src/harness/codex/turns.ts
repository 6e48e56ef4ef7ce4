import type { PlanEntry, Usage } from "../../contract/index.ts";
import { asText, isRecord, toFields } from "../fields.ts";
import type { Params } from "../rpc.ts";
import { own, without } from "../transcript.ts";
import { declineLine } from "./answers.ts";
import { type CodexFailure, toFailure } from "./failure.ts";
import {
  changeAgent,
  ensureModel,
  isMain,
  modelKey,
  originOf,
  type Reading,
  type TokenCounts,
} from "./state.ts";

export function startTurn(reading: Reading, params: Params): void {
  const thread = asText(params["threadId"]);
  const { turn } = params;
  const id = isRecord(turn) && typeof turn["id"] === "string" ? turn["id"] : undefined;
  if (id === undefined) return;
  if (isMain(reading, thread)) {
    reading.change({ turn: id });
    closePlanCall(reading);
    if (!reading.state.prompted) return;
  } else changeAgent(reading, thread ?? "", { turn: id });
  ensureModel(reading, thread);
}

/** The end of a thread's turn. The conversation's turn ends ours. */
export function endTurn(reading: Reading, params: Params): void {
  const thread = asText(params["threadId"]);
  const turn = toFields(params["turn"]);
  if (!isMain(reading, thread)) return endAgentTurn(reading, thread ?? "", turn);
  const { state, scribe } = reading;
  reading.change({ turn: undefined });
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

/**
 * Handles a failure of Codex's turn. Codex does not retry an overloaded model: our turn then stays open, and the engine
 * decides about a retry. Any other failure ends our turn.
 */
function halt(reading: Reading, failure: CodexFailure): void {
  const { code, message } = failure.error;
  if (code !== "overloaded" || !reading.state.driven) return failTurn(reading, failure);
  reading.scribe.endModel(modelKey(reading, undefined), { error: failure.error });
  reading.scribe.add({ type: "model.failed", code, message, retryable: true });
  reading.change({ halted: true });
}

/** Ends the turn of the running prompt. */
export function finish(reading: Reading, outcome: Parameters<Reading["scribe"]["endTurn"]>[0]): void {
  const { scribe, state } = reading;
  if (!state.prompted) return;
  // A request of a sub-agent cannot be answered after the turn.
  for (const ask of Object.values(scribe.transcript.asks)) {
    if (ask.kind !== "plan" && ask.thread !== state.thread) reading.replies.push(declineLine(ask));
  }
  reading.change({ plan: undefined, spawning: undefined, prompted: false, halted: false, calls: {} });
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
  reading.change({ agents: { ...without(reading.state.agents, thread), [thread]: agent } });
  const origin = originOf(reading, thread);
  if (turn["status"] !== "failed") return void reading.scribe.endModel(modelKey(reading, thread), {});
  const { error } = toFailure(turn["error"]);
  reading.scribe.endModel(modelKey(reading, thread), { error });
  reading.scribe.error(error, origin);
}

/** A failed request that Codex repeats. The turn's end reports any other failure. */
export function readError(reading: Reading, params: Params): void {
  const thread = asText(params["threadId"]);
  if (params["willRetry"] === true) return retry(reading, params["error"], thread);
  if (reading.state.prompted || !isMain(reading, thread)) return;
  const { error } = toFailure(params["error"]);
  reading.scribe.error(error);
}

/** `Reconnecting... 2/3`: the open texts will be streamed again. */
export function retry(reading: Reading, value: unknown, thread: string | undefined): void {
  const { scribe } = reading;
  const told = toFields(value);
  const text = String(told["message"] ?? "");
  const [, attempt = "1", most] = /(\d+)\/(\d+)/.exec(text) ?? [];
  const cause = typeof told["additionalDetails"] === "string" ? told["additionalDetails"] : text;
  const failure = toFailure({ ...told, message: cause });
  const error = { ...failure.error, retryable: true };
  const origin = originOf(reading, thread);
  scribe.tear(origin);
  scribe.endModel(modelKey(reading, thread), { error });
  if (!isMain(reading, thread)) return scribe.status("retrying", { detail: cause, ...origin });
  const data = {
    turn_id: "",
    attempt: Number(attempt),
    ...(most === undefined ? {} : { max_attempts: Number(most) }),
    delay_ms: FIRST_BACKOFF_MS * 2 ** Math.min(20, Number(attempt) - 1),
    error,
  };
  scribe.add({ type: "turn.retrying", data });
}

/** The first delay of Codex before a retry. Codex doubles it with every attempt, and does not report it. */
const FIRST_BACKOFF_MS = 200;

export function updatePlan(reading: Reading, params: Params): boolean {
  const { plan, threadId } = params;
  if (!Array.isArray(plan)) return false;
  reading.scribe.plan(plan.filter(isRecord).map(toPlanEntry), originOf(reading, asText(threadId)));
  return true;
}

function toPlanEntry({ step, status }: Params): PlanEntry {
  return { content: String(step ?? ""), status: toPlanStatus(status), priority: "medium" };
}

function toPlanStatus(status: unknown): PlanEntry["status"] {
  if (status === "completed") return "completed";
  return status === "inProgress" ? "in_progress" : "pending";
}

/** Codex leaves the approval of a plan to its client. */
export function askForPlan(reading: Reading, plan: string): void {
  const { scribe } = reading;
  const call = `plan:${scribe.transcript.count}`;
  const name = "implement_plan";
  scribe.endModel(modelKey(reading, undefined), {});
  scribe.call(call, { name, input: { plan } });
  const metadata = { call_id: call, name, input: { plan }, kind: "plan" as const };
  scribe.askPermission({ kind: "plan", call }, { action: name, metadata });
}

/** Closes the plan's call when Codex goes on after the decision. */
export function closePlanCall(reading: Reading): void {
  const { decided } = reading.state;
  if (!decided) return;
  reading.change({ decided: undefined });
  reading.scribe.result(decided.call, {
    output: decided.approved ? "approved" : "declined",
    failed: !decided.approved,
  });
}

/** Reads the totals of a thread. After a resume Codex first repeats the last total. */
export function countTokens(reading: Reading, params: Params): void {
  const thread = asText(params["threadId"]) ?? "";
  const told = toFields(params["tokenUsage"]);
  const total = toCounts(told["total"]);
  if (!total) return;
  const { state, scribe } = reading;
  const before = own(state.used, thread);
  reading.change({ used: { ...state.used, [thread]: total } });
  const running = isMain(reading, thread) ? state.turn : own(state.agents, thread)?.turn;
  if (running === undefined || params["turnId"] !== running) return;
  const last = toCounts(told["last"]) ?? total;
  const counts = before ? since(before, total) : since(ZERO, last);
  if (!counts) return;
  ensureModel(reading, thread);
  scribe.endModel(modelKey(reading, thread), { usage: toUsage(counts) });
}

const ZERO = { input: 0, cacheRead: 0, cacheWrite: 0, output: 0, reasoning: 0 };

/** The app-server's counts; `exec` writes the same in snake case. */
export function toCounts(value: unknown): TokenCounts | undefined {
  if (!isRecord(value)) return undefined;
  const count = (camel: string, snake: string): number => {
    const found = value[camel] ?? value[snake];
    return typeof found === "number" && Number.isSafeInteger(found) && found > 0 ? found : 0;
  };
  return {
    input: count("inputTokens", "input_tokens"),
    cacheRead: count("cachedInputTokens", "cached_input_tokens"),
    cacheWrite: count("cacheWriteInputTokens", "cache_write_input_tokens"),
    output: count("outputTokens", "output_tokens"),
    reasoning: count("reasoningOutputTokens", "reasoning_output_tokens"),
  };
}

/** The difference of two totals; undefined if input and output are the same. */
export function since(before: TokenCounts, now: TokenCounts): TokenCounts | undefined {
  const counts = {
    input: Math.max(0, now.input - before.input),
    cacheRead: Math.max(0, now.cacheRead - before.cacheRead),
    cacheWrite: Math.max(0, now.cacheWrite - before.cacheWrite),
    output: Math.max(0, now.output - before.output),
    reasoning: Math.max(0, now.reasoning - before.reasoning),
  };
  return counts.input + counts.output === 0 ? undefined : counts;
}

/** Codex includes cached tokens in its input. We count them apart; reasoning is a part of the output for both. */
export function toUsage(counts: TokenCounts): Usage {
  return {
    input_tokens: Math.max(0, counts.input - counts.cacheRead - counts.cacheWrite),
    output_tokens: counts.output,
    cache_read_tokens: counts.cacheRead,
    cache_write_tokens: counts.cacheWrite,
    reasoning_tokens: counts.reasoning,
  };
}
