import { uptime } from "node:os";
import { KEY_MARKER } from "./environment.ts";
import { readVariable, type ProcessRow } from "./procfs.ts";

/** A process that began with no marker may get one by what it becomes, but soon. */
const SETTLED_TICKS = 500;
/** How many are remembered before it is looked who of them still lives. */
const PRUNE_AT = 4_096;

interface Known {
  readonly start: string;
  /** Null where it has none. */
  readonly key: string | null;
}

const known = new Map<number, Known>();

/**
 * Whose marker a process carries, without a look at it: a process that was started in a sandbox stays there, whatever
 * it becomes and whatever it does to its environment. Null where it has none, undefined where that is not known.
 */
export function recallMarker({ pid, start }: ProcessRow): string | null | undefined {
  const found = known.get(pid);
  return found?.start === start ? found.key : undefined;
}

/** The same, with a look where that is needed. */
export async function readMarker(row: ProcessRow): Promise<string | null> {
  const recalled = recallMarker(row);
  if (recalled !== undefined) return recalled;
  const key = (await readVariable(row.pid, KEY_MARKER)) ?? null;
  const isFinal = key !== null || uptime() * 100 - Number(row.start) > SETTLED_TICKS;
  if (isFinal) known.set(row.pid, { start: row.start, key });
  return key;
}

/** Forgets those that are not among all that live. */
export function pruneMarkers(rows: readonly ProcessRow[]): void {
  if (known.size < Math.max(PRUNE_AT, 2 * rows.length)) return;
  const starts = new Map(rows.map(({ pid, start }) => [pid, start]));
  for (const [pid, { start }] of known) if (starts.get(pid) !== start) known.delete(pid);
}
