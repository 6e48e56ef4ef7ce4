import type { Usage } from "../contract/index.ts";

/** Adds a request's usage to a running total, in place. A kind of token that nobody reported stays absent. */
export function addUsage(total: Usage, delta: Usage): void {
  for (const [kind, amount] of Object.entries(delta) as [keyof Usage, number | undefined][]) {
    if (amount !== undefined) total[kind] = (total[kind] ?? 0) + amount;
  }
}
