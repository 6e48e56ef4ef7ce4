import { join } from "node:path";
import type { ProcessExit } from "../contract/index.ts";
import type { SpoolBatch } from "./port.ts";
import { readExit, readPid } from "./process.ts";
import { openLineReader, type LineLimits } from "./reader.ts";
import { drained } from "./relay.ts";
import { Wake } from "./wake.ts";

export interface FollowOptions {
  readonly from: number;
  readonly signal: AbortSignal;
  readonly limits: LineLimits;
  /** A wrapper that has not written its pid by then never will. */
  readonly startGraceMs: number;
}

/** Reads only when it is asked for the next batch, and ends with the process. */
export async function* follow(
  folder: string,
  options: FollowOptions,
): AsyncGenerator<SpoolBatch, void, undefined> {
  const { from, signal, limits } = options;
  if (signal.aborted) return;
  const giveUpAt = performance.now() + options.startGraceMs;
  const reader = await openLineReader(join(folder, "out"), { from }, limits);
  const wake = new Wake(folder, signal);
  let exit: ProcessExit | undefined;
  let end: SpoolBatch | undefined;
  try {
    let stirred = wake.take();
    while (!signal.aborted) {
      const batch = await reader.next();
      if (batch !== undefined) {
        yield batch;
        continue;
      }
      if (exit !== undefined) {
        end = { ...reader.rest(), exit };
        break;
      }
      // The end is looked for only after a read found nothing, and is followed by one more read:
      // what was written before the end is there by then.
      if (stirred === "process") exit = await findExit(folder, giveUpAt);
      if (exit !== undefined) continue;
      await wake.moved();
      stirred = wake.take();
    }
  } finally {
    wake.close();
    await reader.close();
  }
  // Nothing is held any more, also when nobody asks what comes after the end.
  if (end !== undefined) yield end;
}

/** The lines in [from, to), the last of them with or without its newline. */
export async function* replay(
  folder: string,
  options: { from: number; to: number; limits: LineLimits },
): AsyncGenerator<SpoolBatch, void, undefined> {
  const { from, to, limits } = options;
  const reader = await openLineReader(join(folder, "out"), { from, to }, limits);
  try {
    for (let batch = await reader.next(); batch !== undefined; batch = await reader.next()) yield batch;
    const rest = reader.rest();
    if (rest.lines.length > 0) yield rest;
  } finally {
    await reader.close();
  }
}

export async function findExit(folder: string, giveUpAt: number): Promise<ProcessExit | undefined> {
  const exit = await readExit(folder);
  if (exit !== undefined) await drained(folder);
  if (exit !== undefined || performance.now() < giveUpAt) return exit;
  return (await readPid(folder)) === undefined ? { lost: true } : undefined;
}
