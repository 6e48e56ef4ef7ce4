import type { BudgetMeasure, Usage } from "../../contract/index.ts";
import type { AnswerFacts } from "../wire.ts";

export type Measure = Exclude<BudgetMeasure, "minutes">;
export type Amounts = Readonly<Record<Measure, number>>;

/** A limit that is reached. */
export interface Hit {
  readonly measure: Measure;
  readonly limit: number;
  readonly spent: number;
  /** The price of the model is not known. */
  readonly unpriced?: true;
}

export const NOTHING: Amounts = { usd: 0, tokens: 0, requests: 0 };
export const ONE_REQUEST: Amounts = { ...NOTHING, requests: 1 };
const MEASURES = ["usd", "tokens", "requests"] as const;
const CHARACTERS_OF_TOKEN = 4;
/** The most tokens that the size of a request is taken for: pictures are long, and cheap. */
const MOST_GUESSED = 200_000;

export function add(one: Amounts, other: Amounts): Amounts {
  return {
    usd: one.usd + other.usd,
    tokens: one.tokens + other.tokens,
    requests: one.requests + other.requests,
  };
}

export function reachedBy(
  sum: Amounts,
  ceilings: { readonly [M in Measure]?: number | undefined },
): Hit | undefined {
  for (const measure of MEASURES) {
    const limit = ceilings[measure];
    if (limit !== undefined && sum[measure] >= limit) return { measure, limit, spent: sum[measure] };
  }
  return undefined;
}

/** The tokens that a budget counts. */
export function countTokens({ input_tokens = 0, output_tokens = 0, cache_write_tokens = 0 }: Usage): number {
  return input_tokens + output_tokens + cache_write_tokens;
}

/** The usage of an answer that broke off: the provider tells its output at the end only. */
export function estimateUsage(facts: AnswerFacts, body: Buffer, spoken: number): Usage {
  return { input_tokens: guessTokens(body.length), ...withSpoken(facts.usage, spoken) };
}

export function withSpoken(usage: Usage = {}, spoken: number): Usage {
  const output = Math.ceil(spoken / CHARACTERS_OF_TOKEN);
  return { ...usage, output_tokens: Math.max(usage.output_tokens ?? 0, output) };
}

export function guessTokens(bytes: number): number {
  return Math.min(MOST_GUESSED, Math.ceil(bytes / CHARACTERS_OF_TOKEN));
}
