import { open, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import type { ProcessExit } from "../contract/index.ts";
import { findExit } from "./follow.ts";
import type { OutputBatch } from "./port.ts";
import { Wake } from "./wake.ts";

export interface OutputsOptions {
  readonly from: { readonly stdout: number; readonly stderr: number };
  readonly signal: AbortSignal;
  readonly startGraceMs: number;
}

const CHUNK_BYTES = 128 * 1024;

/** Reads both outputs only when it is asked for the next batch, and ends with the process. */
export async function* followOutputs(
  folder: string,
  { from, signal, startGraceMs }: OutputsOptions,
): AsyncGenerator<OutputBatch, void, undefined> {
  if (signal.aborted) return;
  const giveUpAt = performance.now() + startGraceMs;
  const stdout = new ByteReader(await open(join(folder, "out"), "r"), from.stdout);
  const stderr = new ByteReader(await open(join(folder, "err"), "r"), from.stderr);
  const wake = new Wake(folder, signal, ["out", "err"]);
  let exit: ProcessExit | undefined;
  try {
    let stirred = wake.take();
    while (!signal.aborted) {
      const batch = { stdout: await stdout.next(), stderr: await stderr.next() };
      if (batch.stdout.length + batch.stderr.length > 0) {
        yield batch;
        continue;
      }
      if (exit !== undefined) break;
      // Looked for after a read that found nothing, and followed by one more.
      if (stirred === "process") exit = await findExit(folder, giveUpAt);
      if (exit !== undefined) continue;
      await wake.moved();
      stirred = wake.take();
    }
  } finally {
    wake.close();
    await Promise.all([stdout.close(), stderr.close()]);
  }
  if (exit !== undefined && !signal.aborted)
    yield { stdout: new Uint8Array(), stderr: new Uint8Array(), exit };
}

class ByteReader {
  readonly #file: FileHandle;
  #offset: number;

  constructor(file: FileHandle, offset: number) {
    this.#file = file;
    this.#offset = offset;
  }

  async next(): Promise<Uint8Array> {
    const chunk = Buffer.alloc(CHUNK_BYTES);
    const { bytesRead } = await this.#file.read(chunk, 0, chunk.length, this.#offset);
    this.#offset += bytesRead;
    return chunk.subarray(0, bytesRead);
  }

  close(): Promise<void> {
    return this.#file.close();
  }
}
