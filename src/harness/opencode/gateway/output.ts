import { writeSync } from "node:fs";

/** Prints one line, whole and in order. Stdout is the spool's file: it has the line before this returns. */
export function print(line: string): void {
  const bytes = Buffer.from(`${line.replaceAll("\n", " ")}\n`);
  for (let at = 0; at < bytes.length;) at += writeSome(bytes, at);
}

function writeSome(bytes: Buffer, at: number): number {
  try {
    return writeSync(1, bytes, at);
  } catch (error) {
    // The pipe is full.
    if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    return 0;
  }
}
