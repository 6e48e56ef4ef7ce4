import { randomBytes } from "node:crypto";
import { createWriteStream } from "node:fs";
import { mkdir, readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { SluiceError } from "../contract/index.ts";

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
      await pipeline(body, createWriteStream(path, { flags: "wx", mode: 0o600 })).catch(toStorageError);
      return await work({ path, size: (await stat(path)).size });
    } finally {
      await rm(path, { force: true });
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
  throw new SluiceError("storage_full", "The file does not fit on the server's disk.", {}, { cause: error });
}
