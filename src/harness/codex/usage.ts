import type { Usage } from "../../contract/index.ts";
import { isRecord } from "../rpc.ts";
import type { TokenCounts } from "./state.ts";

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

/** What came to a total since an earlier one; undefined where nothing did. */
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

/** Codex counts cached tokens as input and reasoning as output: here each stands for itself, so that all add up. */
export function toUsage(counts: TokenCounts): Usage {
  return {
    input_tokens: Math.max(0, counts.input - counts.cacheRead - counts.cacheWrite),
    output_tokens: Math.max(0, counts.output - counts.reasoning),
    cache_read_tokens: counts.cacheRead,
    cache_write_tokens: counts.cacheWrite,
    reasoning_tokens: counts.reasoning,
  };
}
