import { readFileSync } from "node:fs";
import { setImmediate as turn } from "node:timers/promises";

/** So large a part of the queue read at once means that it may have been full: nobody says so when it is. */
const SUSPICIOUS_PART = 1 / 8;
const DEFAULT_QUEUE = 16_384;

const listeners = new Set<() => void>();
let limit: number | undefined;
let burst = 0;

/** All watches of a process share one queue in the kernel, so an overflow concerns every watcher. */
export function onOverflow(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** To be called for every event of the kernel. */
export function countEvent(): void {
  burst += 1;
  if (burst === 1) setImmediate(endBurst);
}

/** Resolves when every event that was in the queue at the call has been delivered. */
export async function drained(): Promise<void> {
  // The first turn may be the rest of this one; before the second the whole queue is read; by the third an overflow is known.
  for (let turns = 0; turns < 3; turns++) await turn();
}

function endBurst(): void {
  limit ??= readLimit();
  const suspicious = burst >= limit * SUSPICIOUS_PART;
  burst = 0;
  if (suspicious) for (const listener of listeners) listener();
}

function readLimit(): number {
  try {
    return Number(readFileSync("/proc/sys/fs/inotify/max_queued_events", "utf8")) || DEFAULT_QUEUE;
  } catch {
    return DEFAULT_QUEUE;
  }
}
