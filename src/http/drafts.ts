import { randomBytes } from "node:crypto";
import { createWriteStream } from "node:fs";
import { mkdir, readdir, rm, stat, statfs } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { SluiceError } from "../contract/index.ts";

const MB = 1024 * 1024;
/** How much may come between two looks at the disk. */
const LOOK_BYTES = 8 * MB;
const RESERVE_BYTES = 256 * MB;

/** A body that came whole, on disk. */
export interface Draft {
  readonly path: string;
  readonly size: number;
}

/**
 * Bodies of any size on their way into a sandbox. A body that is cut changes nothing there, and none is held in memory.
 * A draft is named by its process, so that those of a server that was killed can be told from those of one that runs.
 */
export class Drafts {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Gives the work a body that is whole, and removes the draft behind it. */
  async with<T>(body: AsyncIterable<Uint8Array>, work: (draft: Draft) => Promise<T>): Promise<T> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const path = join(this.#folder, `${process.pid}-${randomBytes(8).toString("hex")}`);
    try {
      const file = createWriteStream(path, { flags: "wx", mode: 0o600 });
      await pipeline(body, (chunks) => this.#within(chunks), file).catch(toStorageError);
      return await work({ path, size: (await stat(path)).size });
    } finally {
      await rm(path, { force: true });
    }
  }

  /** The rest of the disk is the log's: nothing that is uploaded may take it. */
  async *#within(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
    let unseen = Infinity;
    for await (const chunk of chunks) {
      unseen += chunk.length;
      if (unseen > LOOK_BYTES) {
        const { bavail, blocks, bsize } = await statfs(this.#folder);
        const left = bavail * bsize - LOOK_BYTES - chunk.length;
        if (left < Math.min(RESERVE_BYTES, (blocks * bsize) / 10)) throw doesNotFit();
        unseen = 0;
      }
      yield chunk;
    }
  }

  /** Removes what killed servers left. */
  async sweep(): Promise<void> {
    const names = await readdir(this.#folder).catch(() => []);
    for (const name of names) {
      const pid = Number(name.split("-")[0]);
      if (pid !== process.pid && isAlive(pid)) continue;
      await rm(join(this.#folder, name), { force: true });
    }
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

function toStorageError(error: NodeJS.ErrnoException): never {
  if (error.code !== "ENOSPC" && error.code !== "EDQUOT") throw error;
  throw doesNotFit(error);
}

function doesNotFit(cause?: unknown): SluiceError {
  return new SluiceError("storage_full", "The file does not fit on the server's disk.", {}, { cause });
}
