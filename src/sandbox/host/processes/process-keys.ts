import { uptime } from "node:os";
import { KEY_VARIABLE } from "./environment.ts";
import { readVariable, type ProcessRow } from "./procfs.ts";

/** After this age a process without a key never gets one: the exec that sets it comes right after the fork. */
const SETTLED_TICKS = 500;
/** Entries before those of dead processes are removed. */
const PRUNE_AT = 4_096;

interface KnownKey {
  /** The start time of the process, since its pid may be reused. */
  readonly start: string;
  /** Null for a process without a key. */
  readonly key: string | null;
}

const known = new Map<number, KnownKey>();

/**
 * The cached sandbox key of a process. It stays valid: a process that was started in a sandbox stays there, whatever it
 * executes and however it changes its environment. Null for a process without a key, undefined where none was read yet.
 */
export function cachedKey({ pid, start }: ProcessRow): string | null | undefined {
  const found = known.get(pid);
  return found?.start === start ? found.key : undefined;
}

/** The sandbox key of a process, from the cache or from its environment; null where it has none. */
export async function readKey(row: ProcessRow): Promise<string | null> {
  const cached = cachedKey(row);
  if (cached !== undefined) return cached;
  const key = (await readVariable(row.pid, KEY_VARIABLE)) ?? null;
  const isFinal = key !== null || uptime() * 100 - Number(row.start) > SETTLED_TICKS;
  if (isFinal) known.set(row.pid, { start: row.start, key });
  return key;
}

/** Removes the keys of dead processes from the cache; `rows` are all live ones. */
export function pruneKeys(rows: readonly ProcessRow[]): void {
  if (known.size < Math.max(PRUNE_AT, 2 * rows.length)) return;
  const starts = new Map(rows.map(({ pid, start }) => [pid, start]));
  for (const [pid, { start }] of known) if (starts.get(pid) !== start) known.delete(pid);
}
