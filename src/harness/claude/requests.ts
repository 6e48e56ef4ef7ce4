import type { Scribe } from "../scribe.ts";
import { type Fields, toFields } from "./fields.ts";
import type { Ask, ClaudeState, Stream } from "./state.ts";
import { add, hasTokens, subtract, toTotals } from "./usage.ts";

/** A model request's end, with what it used. */
export function endRequest(state: ClaudeState, stream: Stream, scribe: Scribe<Ask>): ClaudeState {
  const { message, usage } = stream;
  if (!scribe.endModel(message, { usage })) return state;
  return { ...state, told: add(state.told, usage) };
}

/** The last request was not the turn's last: it ends without a price. */
export function settleRequest(state: ClaudeState, scribe: Scribe<Ask>, cost = 0): ClaudeState {
  const { unpriced, ...rest } = state;
  if (!unpriced) return state;
  const { request, usage } = unpriced;
  scribe.endModel(request, { usage: cost > 0 ? { ...usage, cost_usd: cost } : usage });
  return { ...rest, told: add(rest.told, usage) };
}

/**
 * A result says what everything since the last one has used and cost, sub-agents and compaction too: what the
 * requests that we saw leave over is told as one more, so that a turn's requests add up to the CLI's own count.
 */
export function settleUsage(state: ClaudeState, result: Fields, scribe: Scribe<Ask>): ClaudeState {
  const counted = toTotals(result["modelUsage"]);
  const since = result["model_usage_since_last_result"];
  const spent = since === undefined ? subtract(counted, state.counted) : toTotals(since);
  const streams = Object.values(state.streams).filter(({ message }) => message !== state.unpriced?.request);
  const open = streams.reduce((next, stream) => endRequest(next, stream, scribe), state);
  const isPriced = state.unpriced !== undefined;
  const settled = settleRequest(open, scribe, spent.cost_usd);
  const { cost_usd: cost, ...tokens } = subtract(spent, settled.told);
  if (hasTokens(tokens) || (!isPriced && cost !== undefined)) {
    const [model, ...others] = Object.keys(toFields(since ?? result["modelUsage"]));
    const request = `rest of ${String(result["uuid"] ?? result["result_index"] ?? "the turn")}`;
    scribe.startModel(request, { model: others.length === 0 ? model : undefined });
    scribe.endModel(request, {
      usage: isPriced || cost === undefined ? tokens : { ...tokens, cost_usd: cost },
    });
  }
  return { ...settled, told: {}, counted };
}
