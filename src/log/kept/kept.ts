import type { TurnHistory, TurnRows } from "./turns.ts";
import type { UsageBook, UsageRows } from "./usage.ts";

interface Kept {
  readonly turns: TurnHistory;
  readonly usage: UsageBook;
}

/** The turns and the usage of a log whose store is used when no commit is under way. */
export function createKept(
  { turns, usage }: { readonly turns: TurnRows; readonly usage: UsageRows },
  calmly: <T>(work: () => T) => Promise<T>,
): Kept {
  return {
    turns: {
      list: (ordinal, page) => calmly(() => turns.list(ordinal, page)),
      foldAt: (ordinal, sequence) => calmly(() => turns.foldAt(ordinal, sequence)),
      add: (ordinal, history) => calmly(() => turns.add(ordinal, history)),
    },
    usage: {
      list: (filter) => calmly(() => usage.list(filter)),
      total: (tenant) => calmly(() => usage.total(tenant)),
    },
  };
}
