import type { Usage } from "../../contract/index.ts";
import { isRecord } from "../fields.ts";
import type { Params } from "../rpc.ts";
import type { AcpReading, ModelUsage } from "./dialect.ts";

/** Reports the usage of a turn, for agents that count whole turns. */
export function reportUsage(reading: AcpReading, result: Params): void {
  const told = reading.dialect.usage?.(result, reading) ?? turnUsage(result);
  const cost = costOfTurn(reading);
  const all = cost === undefined ? told : withCost(told, cost);
  for (const [index, { model, usage }] of all.entries()) {
    const native = `turn-${index}`;
    reading.scribe.startModel(native, { model });
    reading.scribe.endModel(native, { usage });
  }
}

/** The counts above zero; undefined without any. */
export function toUsage(counts: { readonly [K in keyof Usage]?: unknown }): Usage | undefined {
  const entries = Object.entries(counts).filter(
    (entry): entry is [string, number] => typeof entry[1] === "number" && entry[1] > 0,
  );
  return entries.length === 0 ? undefined : (Object.fromEntries(entries) as Usage);
}

function turnUsage(result: Params): ModelUsage[] {
  const { usage } = result;
  if (!isRecord(usage)) return [];
  const counts = toUsage({
    input_tokens: usage["inputTokens"],
    output_tokens: usage["outputTokens"],
    cache_read_tokens: usage["cachedReadTokens"],
    cache_write_tokens: usage["cachedWriteTokens"],
    reasoning_tokens: usage["thoughtTokens"],
  });
  return counts === undefined ? [] : [{ usage: counts }];
}

/** The turn's cost: the session's, less that of earlier turns. */
function costOfTurn(reading: AcpReading): number | undefined {
  const { total, told } = reading.state.cost;
  if (total <= told) return undefined;
  reading.change({ cost: { total, told: total } });
  // The difference of decimal fractions gets no spurious digits.
  return Number((total - told).toFixed(9));
}

function withCost(told: readonly ModelUsage[], cost: number): readonly ModelUsage[] {
  const [first = { usage: {} }, ...others] = told;
  return [{ ...first, usage: { ...first.usage, cost_usd: cost } }, ...others];
}
