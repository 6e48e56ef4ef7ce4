import type { Usage } from "../../contract/index.ts";

export interface AgUiUsage {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly totalTokens: number;
  readonly cachedInputTokens?: number;
  readonly reasoningTokens?: number;
  readonly model?: string;
}

export function addUsage(
  sums: Readonly<Record<string, Usage>>,
  model: string,
  usage: Usage,
): Readonly<Record<string, Usage>> {
  const sum: Record<string, number | undefined> = { ...sums[model] };
  for (const [key, value] of Object.entries(usage)) sum[key] = (sum[key] ?? 0) + (value ?? 0);
  return { ...sums, [model]: sum as Usage };
}

/** One entry for each model; nothing where nobody counted. The log counts each kind for itself, this dialect all of them in two. */
export function toUsage(sums: Readonly<Record<string, Usage>>): AgUiUsage[] {
  return Object.entries(sums).map(([model, usage]) => toEntry(model, usage));
}

function toEntry(model: string, usage: Usage): AgUiUsage {
  const { cache_read_tokens: cached, reasoning_tokens: reasoning } = usage;
  const inputTokens = (usage.input_tokens ?? 0) + (cached ?? 0) + (usage.cache_write_tokens ?? 0);
  const outputTokens = (usage.output_tokens ?? 0) + (reasoning ?? 0);
  return {
    inputTokens,
    outputTokens,
    totalTokens: inputTokens + outputTokens,
    ...(cached === undefined ? {} : { cachedInputTokens: cached }),
    ...(reasoning === undefined ? {} : { reasoningTokens: reasoning }),
    ...(model === "" ? {} : { model }),
  };
}
