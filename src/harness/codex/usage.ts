import { isRecord } from "../fields.ts";
import type { Params } from "../rpc.ts";
import { own } from "../transcript.ts";
import { asThread, ensureModel, isMain, modelKey, type Reading, type TokenCounts } from "./state.ts";
import type { Usage } from "../../contract/index.ts";

/** Totals of a thread. After a resume Codex first repeats the last total. */
export function countTokens(reading: Reading, params: Params): void {
  const thread = asThread(params["threadId"]) ?? "";
  const told = isRecord(params["tokenUsage"]) ? params["tokenUsage"] : {};
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

/** The difference of two totals; undefined where there is none. */
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

/**
 * Codex includes cached tokens in its input and reasoning in its output. Here each count stands alone, so that they
 * add up.
 */
export function toUsage(counts: TokenCounts): Usage {
  return {
    input_tokens: Math.max(0, counts.input - counts.cacheRead - counts.cacheWrite),
    output_tokens: Math.max(0, counts.output - counts.reasoning),
    cache_read_tokens: counts.cacheRead,
    cache_write_tokens: counts.cacheWrite,
    reasoning_tokens: counts.reasoning,
  };
}
