import { createInterface } from "node:readline/promises";
import { suspendAtCtrlZ } from "./suspend.ts";

/** Whether a person can be asked. */
export function isAtTerminal(): boolean {
  return Boolean(process.stdin.isTTY && process.stderr.isTTY);
}

/** Asks a yes-or-no question on standard error. Anything but yes means no, and so do Ctrl-C and Ctrl-D. */
export async function confirm(question: string, options: { signal: AbortSignal }): Promise<boolean> {
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  const stop = new AbortController();
  lines.on("SIGINT", () => stop.abort());
  suspendAtCtrlZ(lines);
  lines.on("close", () => stop.abort());
  try {
    const signal = AbortSignal.any([stop.signal, options.signal]);
    return /^y(es)?$/i.test((await lines.question(`${question} [y/N] `, { signal })).trim());
  } catch (error) {
    if (stop.signal.aborted || options.signal.aborted) return false;
    throw error;
  } finally {
    lines.close();
  }
}
