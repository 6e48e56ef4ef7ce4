import type { Usage } from "../../contract/index.ts";
import { isRecord } from "../rpc.ts";

/** Amp's token counts as ours, which keep what the cache gave apart from what was read anew. */
export function toUsage(native: unknown): Usage | undefined {
  if (!isRecord(native)) return undefined;
  const read = countOf(native["cache_read_input_tokens"]);
  const written = countOf(native["cache_creation_input_tokens"]);
  const all = countOf(native["input_tokens"]);
  const output = countOf(native["output_tokens"]);
  if (all === undefined && output === undefined) return undefined;
  const cached = (read ?? 0) + (written ?? 0);
  // Amp's own examples count the cache into the input; Anthropic's do not, and are then the smaller number.
  const input = all !== undefined && all >= cached ? all - cached : all;
  return {
    ...(input === undefined ? {} : { input_tokens: input }),
    ...(output === undefined ? {} : { output_tokens: output }),
    ...(read === undefined ? {} : { cache_read_tokens: read }),
    ...(written === undefined ? {} : { cache_write_tokens: written }),
  };
}

function countOf(value: unknown): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}
