import type { Usage } from "../../../contract/index.ts";
import { toCost, toCount } from "../../core/format.ts";
import { addUsage } from "../../log/moment.ts";
import type { TurnSummary } from "../../log/protocol.ts";
import type { Span } from "../../log/protocol.ts";
import { median } from "../timeline/lanes.ts";

/** The usage of one model in one turn. */
export interface UsageRow {
  readonly turn: number;
  /** Empty where the agent names none. */
  readonly model: string;
  requests: number;
  usage: Usage;
  /** Whether some counts are estimates of the agent's adapter. */
  estimated: boolean;
  readonly waits: number[];
  /** The event to select. */
  readonly sequence: number;
}

export interface UsageTable {
  readonly rows: readonly UsageRow[];
  readonly models: readonly UsageRow[];
  readonly total: Usage;
  /** Whether a part of the work has tokens without a price. */
  readonly isPartlyPriced: boolean;
}

/** The table of a session: by turn and model, by model, and the sum. */
export function toUsageTable(spans: readonly Span[], turns: readonly TurnSummary[]): UsageTable {
  const rows = new Map<string, UsageRow>();
  const told = new Set<number>();
  for (const span of spans) {
    if (span.kind !== "model") continue;
    if (span.usage) told.add(span.turn);
    const row = rowOf(rows, { turn: span.turn, model: span.model ?? "", sequence: span.sequence });
    row.requests += 1;
    if (span.usage) addUsage(row.usage, span.usage);
    if (span.estimated) row.estimated = true;
    if (span.firstToken !== 0) row.waits.push(span.firstToken - span.start);
  }
  // An agent that counts only whole turns names no model.
  for (const turn of turns)
    if (!told.has(turn.index) && Object.keys(turn.usage).length > 0)
      addUsage(rowOf(rows, { turn: turn.index, model: "", sequence: turn.first }).usage, turn.usage);
  const list = [...rows.values()].toSorted((a, b) => a.turn - b.turn || a.sequence - b.sequence);
  const models = new Map<string, UsageRow>();
  const total: Usage = {};
  for (const row of list) {
    const sum = rowOf(models, { turn: 0, model: row.model, sequence: row.sequence });
    sum.requests += row.requests;
    addUsage(sum.usage, row.usage);
    sum.estimated ||= row.estimated;
    sum.waits.push(...row.waits);
    addUsage(total, row.usage);
  }
  const priced = list.filter(({ usage }) => usage.cost_usd !== undefined).length;
  return {
    rows: list,
    models: [...models.values()],
    total,
    isPartlyPriced: priced > 0 && priced < list.length,
  };
}

function rowOf(rows: Map<string, UsageRow>, key: Pick<UsageRow, "turn" | "model" | "sequence">): UsageRow {
  const name = `${key.turn}:${key.model}`;
  const known = rows.get(name);
  if (known) return known;
  const row: UsageRow = { ...key, requests: 0, usage: {}, estimated: false, waits: [] };
  rows.set(name, row);
  return row;
}

/** A price; "plan" for tokens that nobody priced, and "unknown" where nothing was reported. */
export function toPrice(usage: Usage): string {
  if (usage.cost_usd !== undefined) return toCost(usage);
  return Object.keys(usage).length > 0 ? "plan" : "unknown";
}

export function toTokenCount(count: number | undefined): string {
  return count === undefined ? "unknown" : toCount(count);
}

/** The part of the input that came from the cache. Input tokens are those that did not. */
export function toHitRate({
  input_tokens: input = 0,
  cache_read_tokens: read,
  cache_write_tokens: written = 0,
}: Usage): string {
  const sum = input + (read ?? 0) + written;
  return read === undefined || sum === 0 ? "unknown" : `${Math.round((read / sum) * 100)} %`;
}

export function toWait({ waits }: UsageRow): number | undefined {
  return median(waits);
}
