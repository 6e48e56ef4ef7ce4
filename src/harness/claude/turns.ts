import type { Usage } from "../../contract/index.ts";
import { type Fields, toCount, toFields, toText } from "../fields.ts";
import { type Ending, toEnding } from "./failure.ts";
import { type ClaudeState, isServing, nextPhase, type Reader, type Reading, type Stream } from "./state.ts";

/** Reads the result of the main agent. It ends the turn, unless background work will wake the agent again. */
export const readResult: Reader = (reading, line) => {
  settleUsage(reading, line);
  const { state, scribe } = reading;
  // Between turns, a result only answers a task that ended in the background.
  if (!isServing(state)) return void reading.change({ isIdle: true });
  const ending = toEnding(line, state.failure);
  const answer = toText(line["result"]);
  // The answer of a slash command is only in the result.
  if (ending.status === "completed" && !state.hasSpoken && answer !== "") {
    scribe.sayWhole(toText(line["uuid"]) || "result", answer);
  }
  if (!goesOn(state, line, ending)) return void endTurn(reading, ending);
  reportFailure(reading, ending);
  reading.change({ failure: undefined, isIdle: true });
};

function goesOn(state: ClaudeState, line: Fields, ending: Ending): boolean {
  if (ending.status === "interrupted") return false;
  // A message that came too late for the turn gets an answer, and a result, of its own.
  const waiting = state.tellsQueue ? Object.values(state.waiting) : [];
  if (toCount(line["queued_turn_count"]) > 0 || waiting.includes("steer")) return true;
  // The result belongs to a task that had ended in the background. The prompt came meanwhile and still waits.
  if (line["origin"] !== undefined && waiting.includes("prompt")) return true;
  return ending.status === "completed" && Object.keys(state.background).length > 0;
}

/** Ends the prompt's turn, after its error. The plan, the counts and the handshake stay. */
export function endTurn(reading: Reading, ending: Ending): void {
  reportFailure(reading, ending);
  reading.scribe.endTurn(ending);
  reading.change({
    phase: nextPhase(reading.state.phase, "ended"),
    isIdle: true,
    hasSpoken: false,
    streams: {},
    waiting: {},
    background: {},
    inputs: {},
    unpriced: undefined,
    failure: undefined,
  });
}

function reportFailure({ scribe }: Reading, { error }: Ending): void {
  if (error) scribe.error(error);
}

/** The end of a model request, with its usage. */
export function endRequest(reading: Reading, { message, usage }: Stream): void {
  if (reading.scribe.endModel(message, { usage })) reading.change({ told: add(reading.state.told, usage) });
}

/** Ends the main agent's last request. Only the turn's last one gets a cost. */
export function settleRequest(reading: Reading, cost = 0): void {
  const { unpriced, told } = reading.state;
  if (!unpriced) return;
  const { request, usage } = unpriced;
  reading.scribe.endModel(request, { usage: cost > 0 ? { ...usage, cost_usd: cost } : usage });
  reading.change({ unpriced: undefined, told: add(told, usage) });
}

/**
 * Reports the usage beyond that of the reported requests, as one more request. A result counts everything since the last
 * result, with sub-agents and compaction, so the requests of a turn then add up to its count.
 */
function settleUsage(reading: Reading, result: Fields): void {
  const { state, scribe } = reading;
  const counted = toTotals(result["modelUsage"]);
  const since = result["model_usage_since_last_result"];
  const spent = since === undefined ? subtract(counted, state.counted) : toTotals(since);
  for (const stream of Object.values(state.streams))
    if (stream.message !== state.unpriced?.request) endRequest(reading, stream);
  const isPriced = state.unpriced !== undefined;
  settleRequest(reading, spent.cost_usd);
  const { cost_usd: cost, ...tokens } = subtract(spent, reading.state.told);
  if (hasTokens(tokens) || (!isPriced && cost !== undefined)) {
    const [model, ...others] = Object.keys(toFields(since ?? result["modelUsage"]));
    const request = `rest of ${String(result["uuid"] ?? result["result_index"] ?? "the turn")}`;
    scribe.startModel(request, { model: others.length === 0 ? model : undefined });
    scribe.endModel(request, {
      usage: isPriced || cost === undefined ? tokens : { ...tokens, cost_usd: cost },
    });
  }
  reading.change({ told: {}, counted });
}

const TOKENS = [
  "input_tokens",
  "output_tokens",
  "cache_read_tokens",
  "cache_write_tokens",
  "reasoning_tokens",
] as const;

/** The usage of one request in the model's stream. A field that a later event leaves out keeps its value. */
export function toUsage(usage: Fields, before: Usage = {}): Usage {
  const thinking = toFields(usage["output_tokens_details"])["thinking_tokens"];
  return withoutZeros({
    input_tokens: latest(usage["input_tokens"], before.input_tokens),
    output_tokens: latest(usage["output_tokens"], before.output_tokens),
    cache_read_tokens: latest(usage["cache_read_input_tokens"], before.cache_read_tokens),
    cache_write_tokens: latest(usage["cache_creation_input_tokens"], before.cache_write_tokens),
    reasoning_tokens: latest(thinking, before.reasoning_tokens),
  });
}

/** The CLI's count per model, added up. */
function toTotals(perModel: unknown): Usage {
  let totals: Usage = {};
  for (const value of Object.values(toFields(perModel))) {
    const count = toFields(value);
    totals = add(totals, {
      input_tokens: toWhole(count["inputTokens"]),
      output_tokens: toWhole(count["outputTokens"]),
      cache_read_tokens: toWhole(count["cacheReadInputTokens"]),
      cache_write_tokens: toWhole(count["cacheCreationInputTokens"]),
      reasoning_tokens: toWhole(count["thinkingTokens"]),
      cost_usd: toCount(count["costUSD"]),
    });
  }
  return totals;
}

function add(a: Usage, b: Usage): Usage {
  return combine(a, b, (x, y) => x + y);
}

/** `a` less `b`, never below zero. */
function subtract(a: Usage, b: Usage): Usage {
  return combine(a, b, (x, y) => Math.max(0, x - y));
}

function hasTokens(totals: Usage): boolean {
  return TOKENS.some((name) => (totals[name] ?? 0) > 0);
}

function combine(a: Usage, b: Usage, join: (a: number, b: number) => number): Usage {
  const result: Usage = {};
  for (const name of [...TOKENS, "cost_usd"] as const) {
    const value = join(a[name] ?? 0, b[name] ?? 0);
    if (value > 0) result[name] = value;
  }
  return result;
}

function latest(value: unknown, before: number | undefined): number {
  return typeof value === "number" ? toWhole(value) : (before ?? 0);
}

function toWhole(value: unknown): number {
  return Math.round(toCount(value));
}

/** Input and output are always included; the other counts only above zero. */
function withoutZeros(usage: Usage & { input_tokens: number; output_tokens: number }): Usage {
  const { input_tokens, output_tokens, ...rest } = usage;
  return { input_tokens, output_tokens, ...combine(rest, {}, (count) => count) };
}
