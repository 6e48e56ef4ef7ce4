import { randomBytes } from "node:crypto";
import { createWriteStream } from "node:fs";
import { mkdir, readdir, rm, stat, statfs } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { SluiceError } from "../contract/index.ts";
import { Owner } from "../sessions/owner.ts";

const MB = 1024 * 1024;
/** How much may come between two looks at the disk. */
const LOOK_BYTES = 8 * MB;
const RESERVE_BYTES = 256 * MB;
/** Between the name of a draft's owner and its own. */
const MARK = "~";

/** A body that came whole, on disk. */
export interface Draft {
  readonly path: string;
  readonly size: number;
}

/**
 * Bodies of any size on their way into a sandbox. A body that is cut changes nothing there, and none is held in memory.
 * A draft is named by its owner, who holds a lock while an upload is under way. A draft whose owner was killed can so be
 * told from one in flight, in another container too.
 */
export class Drafts {
  readonly #folder: string;
  #owner: Owner | undefined;
  #underWay = 0;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Gives the work a body that is whole, and removes the draft behind it. */
  async with<T>(body: AsyncIterable<Uint8Array>, work: (draft: Draft) => Promise<T>): Promise<T> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    this.#underWay += 1;
    this.#owner ??= new Owner(this.#folder);
    const path = join(this.#folder, `${this.#owner.name}${MARK}${randomBytes(8).toString("hex")}`);
    try {
      const file = createWriteStream(path, { flags: "wx", mode: 0o600 });
      await pipeline(body, (chunks) => this.#within(chunks), file).catch(toStorageError);
      return await work({ path, size: (await stat(path)).size });
    } finally {
      await rm(path, { force: true });
      this.#ended();
    }
  }

  #ended(): void {
    this.#underWay -= 1;
    if (this.#underWay > 0) return;
    this.#owner?.close();
    this.#owner = undefined;
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
    const entries = await readdir(this.#folder, { withFileTypes: true }).catch(() => []);
    const drafts = entries.filter((entry) => entry.isFile());
    if (drafts.length === 0) return;
    const ourselves = new Owner(this.#folder);
    try {
      for (const { name } of drafts) {
        if (ourselves.isAlive(name.split(MARK)[0] ?? "")) continue;
        await rm(join(this.#folder, name), { force: true });
      }
    } finally {
      ourselves.close();
    }
  }
}

function toStorageError(error: NodeJS.ErrnoException): never {
  if (error.code !== "ENOSPC" && error.code !== "EDQUOT") throw error;
  throw doesNotFit(error);
}

function doesNotFit(cause?: unknown): SluiceError {
  return new SluiceError("storage_full", "The file does not fit on the server's disk.", {}, { cause });
}
