import { open, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import type { ProcessExit } from "../contract/index.ts";
import { findExit } from "./follow.ts";
import type { OutputBatch } from "./port.ts";
import { demandLength } from "./shortened.ts";
import { Wake } from "./wake.ts";

export interface OutputsOptions {
  readonly from: { readonly stdout: number; readonly stderr: number };
  readonly signal: AbortSignal;
  readonly startGraceMs: number;
}

const CHUNK_BYTES = 128 * 1024;

/** The bytes of both outputs, as the caller asks for them, until the process has ended. */
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
    let reason = wake.take();
    while (!signal.aborted) {
      const batch = { stdout: await stdout.next(), stderr: await stderr.next() };
      if (batch.stdout.length + batch.stderr.length > 0) {
        yield batch;
        continue;
      }
      if (exit !== undefined) break;
      // The exit is checked after an empty read, and one more read follows it.
      if (reason === "process") exit = await findExit(folder, giveUpAt);
      if (exit !== undefined) continue;
      await wake.moved();
      reason = wake.take();
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
    if (bytesRead === 0) demandLength(await this.#file.stat(), this.#offset);
    return chunk.subarray(0, bytesRead);
  }

  close(): Promise<void> {
    return this.#file.close();
  }
}
