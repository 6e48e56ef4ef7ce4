import { join } from "node:path";
import type { ProcessExit } from "../contract/index.ts";
import type { SpoolBatch } from "./port.ts";
import { readExit, readPid } from "./process.ts";
import { openLineReader, type LineLimits } from "./reader.ts";
import { drained } from "./relay.ts";
import { demandLength } from "./shortened.ts";
import { Wake } from "./wake.ts";

export interface FollowOptions {
  readonly from: number;
  readonly signal: AbortSignal;
  readonly limits: LineLimits;
  /** After this time a wrapper without a pid file counts as lost. */
  readonly startGraceMs: number;
}

/** The lines of `out`, as the caller asks for them, until the process has ended. */
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
    let reason = wake.take();
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
      // The exit is checked only after an empty read, and one more read follows it: output before the exit is there by
      // then.
      if (reason === "process") exit = await findExit(folder, giveUpAt);
      if (exit !== undefined) continue;
      await wake.moved();
      reason = wake.take();
    }
  } finally {
    wake.close();
    await reader.close();
  }
  // The files are closed before the last batch, also for a consumer that stops there.
  if (end !== undefined) yield end;
}

/** The lines in [from, to), the last of them with or without its newline. Throws where the file was shortened. */
export async function* replay(
  folder: string,
  options: { from: number; to: number; limits: LineLimits },
): AsyncGenerator<SpoolBatch, void, undefined> {
  const { from, to, limits } = options;
  const reader = await openLineReader(join(folder, "out"), { from, to }, limits);
  try {
    for (let batch = await reader.next(); batch !== undefined; batch = await reader.next()) yield batch;
    const rest = reader.rest();
    demandLength({ size: rest.offset }, to);
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
