/** One line of the report. Every value is the median of its rounds; a ratio is taken within one run. */
export interface Row {
  readonly id: string;
  readonly what: string;
  readonly unit: string;
  readonly value: number;
  /** The least and the most of the rounds. */
  readonly spread?: readonly [number, number];
  readonly against?: { readonly what: string; readonly value: number; readonly note?: string };
  readonly ratio?: number;
  readonly target?: string;
  readonly verdict?: Verdict;
  readonly note?: string;
}

export type Verdict = "pass" | "miss" | "unknown";

export function toRow(
  row: Omit<Row, "value" | "spread" | "ratio" | "verdict"> & {
    readonly rounds: readonly number[];
    readonly reached?: (row: { value: number; ratio: number }) => boolean;
  },
): Row {
  const { rounds, reached, ...rest } = row;
  const value = median(rounds);
  const ratio = rest.against === undefined ? Number.NaN : value / rest.against.value;
  return {
    ...rest,
    value,
    spread: [Math.min(...rounds), Math.max(...rounds)],
    ...(Number.isNaN(ratio) ? {} : { ratio }),
    ...(reached === undefined ? {} : { verdict: reached({ value, ratio }) ? "pass" : "miss" }),
  };
}

/** A row with a target relative to a missing peer, and the reason. */
export function withoutPeer(row: Row, target: string, why: string): Row {
  return { ...row, target, verdict: "unknown", note: why };
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

export function quantile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN;
}
