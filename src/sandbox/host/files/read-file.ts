import type { FileHandle } from "node:fs/promises";
import { Readable } from "node:stream";
import { callbackify } from "node:util";
import { SluiceError } from "../../../contract/index.ts";
import { readUpTo } from "./open-file.ts";

const MAX_READ_BYTES = 512 * 1024 * 1024;
const CHUNK = 256 * 1024;

/** The first `size` bytes of a file. The stream closes the handle when it ends or is destroyed. */
export function readExactly(handle: FileHandle, size: number): Readable {
  let position = 0;
  const close = callbackify(() => handle.close());
  const readNext = async (): Promise<Buffer | null> => {
    const chunk = Buffer.allocUnsafe(Math.min(CHUNK, size - position));
    if (chunk.length === 0) return null;
    const { bytesRead } = await handle.read(chunk, 0, chunk.length, position);
    if (bytesRead === 0) throw new Error(`The file has become shorter than the ${size} bytes that it had.`);
    position += bytesRead;
    return chunk.subarray(0, bytesRead);
  };
  return new Readable({
    highWaterMark: CHUNK,
    read() {
      readNext().then(
        (chunk) => this.push(chunk),
        (error: Error) => this.destroy(error),
      );
    },
    destroy: (error, done) => close((failed) => done(error ?? failed)),
  });
}

export async function readAll(handle: FileHandle, path: string): Promise<Uint8Array> {
  const bytes = await readUpTo(handle, MAX_READ_BYTES);
  if (bytes !== undefined) return bytes;
  const { size } = await handle.stat();
  throw new SluiceError(
    "too_large",
    `${path} has ${size} bytes; at most ${MAX_READ_BYTES} are read at once.`,
  );
}
