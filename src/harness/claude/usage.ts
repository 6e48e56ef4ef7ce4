import type { Usage } from "../../contract/index.ts";
import { type Fields, toCount, toFields } from "./fields.ts";

/** Tokens and dollars, in the names of our log. */
export type Totals = Usage;

const TOKENS = [
  "input_tokens",
  "output_tokens",
  "cache_read_tokens",
  "cache_write_tokens",
  "reasoning_tokens",
] as const;

/** The usage of one request, as the model's own stream says it; what a later part leaves out stays. */
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
export function toTotals(perModel: unknown): Totals {
  let totals: Totals = {};
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

export function add(a: Totals, b: Totals): Totals {
  return combine(a, b, (x, y) => x + y);
}

/** What is left of `a` without `b`; never less than nothing. */
export function subtract(a: Totals, b: Totals): Totals {
  return combine(a, b, (x, y) => Math.max(0, x - y));
}

export function hasTokens(totals: Totals): boolean {
  return TOKENS.some((name) => (totals[name] ?? 0) > 0);
}

function combine(a: Totals, b: Totals, join: (a: number, b: number) => number): Totals {
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

/** Input and output are always told; the others where there is something to tell. */
function withoutZeros(usage: Usage & { input_tokens: number; output_tokens: number }): Usage {
  const { input_tokens, output_tokens, ...rest } = usage;
  return { input_tokens, output_tokens, ...combine(rest, {}, (count) => count) };
}
