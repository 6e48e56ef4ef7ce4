import type { Usage } from "../../contract/index.ts";
import { isRecord, type Params } from "../rpc.ts";
import type { ModelUsage } from "./dialect.ts";
import type { Hand } from "./hand.ts";

/** Told once, at the turn's end, where an agent only counts whole turns. */
export function tellUsage(hand: Hand, result: Params): void {
  const told = hand.dialect.usage?.(result, hand) ?? turnUsage(result);
  const cost = costOfTurn(hand);
  const all = cost === undefined ? told : withCost(told, cost);
  for (const [index, { model, usage }] of all.entries()) {
    const native = `turn-${index}`;
    hand.scribe.startModel(native, { model });
    hand.scribe.endModel(native, { usage });
  }
}

/** Counts under whatever name, where they are more than nothing. */
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

/** The session's cost so far, less what earlier turns had cost. */
function costOfTurn(hand: Hand): number | undefined {
  const { total, told } = hand.state.cost;
  if (total <= told) return undefined;
  hand.note({ cost: { total, told: total } });
  // Sums of decimal fractions must not grow digits that nobody counted.
  return Number((total - told).toFixed(9));
}

function withCost(told: readonly ModelUsage[], cost: number): readonly ModelUsage[] {
  const [first = { usage: {} }, ...others] = told;
  return [{ ...first, usage: { ...first.usage, cost_usd: cost } }, ...others];
}
