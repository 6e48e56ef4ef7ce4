import { randomBytes } from "node:crypto";
import { createWriteStream } from "node:fs";
import { mkdir, readdir, rm, stat, statfs } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { SluiceError } from "../../contract/index.ts";
import { toStorageError } from "../../disk/full-disk.ts";
import { Lease } from "../../sessions/upkeep/lease.ts";

const MB = 1024 * 1024;
/** How many bytes may be written between two checks of the free space. */
const CHECK_BYTES = 8 * MB;
const RESERVE_BYTES = 256 * MB;
/** Separates the name of the lock from the rest of a file's name. */
const SEPARATOR = "~";

/** A whole body on disk. */
export interface UploadedBody {
  readonly path: string;
  readonly size: number;
}

/**
 * Writes bodies to disk before they go into a sandbox: an incomplete body changes nothing there, and none is held in
 * memory. The name of each file begins with the name of a lock that the server holds during uploads. By this lock
 * another server recognises the files of a killed one, even from another container.
 */
export class Uploads {
  readonly #folder: string;
  #lock: Lease | undefined;
  #underWay = 0;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Calls `work` with the whole body, and removes its file afterwards. */
  async with<T>(body: AsyncIterable<Uint8Array>, work: (upload: UploadedBody) => Promise<T>): Promise<T> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    // Counted after the lock, which may fail: a count too many would keep the next lock for ever.
    this.#lock ??= new Lease(this.#folder);
    this.#underWay += 1;
    const path = join(this.#folder, `${this.#lock.name}${SEPARATOR}${randomBytes(8).toString("hex")}`);
    try {
      const file = createWriteStream(path, { flags: "wx", mode: 0o600 });
      await pipeline(body, (chunks) => this.#leaveReserve(chunks), file).catch(throwStorageError);
      return await work({ path, size: (await stat(path)).size });
    } finally {
      await rm(path, { force: true });
      this.#ended();
    }
  }

  #ended(): void {
    this.#underWay -= 1;
    if (this.#underWay > 0) return;
    this.#lock?.release();
    this.#lock = undefined;
  }

  /** Throws before the disk has too little free space left for the log. */
  async *#leaveReserve(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
    let unchecked = Infinity;
    for await (const chunk of chunks) {
      unchecked += chunk.length;
      if (unchecked > CHECK_BYTES) {
        const { bavail, blocks, bsize } = await statfs(this.#folder);
        const left = bavail * bsize - CHECK_BYTES - chunk.length;
        if (left < Math.min(RESERVE_BYTES, (blocks * bsize) / 10))
          throw new SluiceError("storage_full", DOES_NOT_FIT);
        unchecked = 0;
      }
      yield chunk;
    }
  }

  /** Removes the files of killed servers. */
  async sweep(): Promise<void> {
    const entries = await readdir(this.#folder, { withFileTypes: true }).catch(() => []);
    const files = entries.filter((entry) => entry.isFile());
    if (files.length === 0) return;
    const lease = new Lease(this.#folder);
    try {
      for (const { name } of files) {
        if (lease.isAlive(name.split(SEPARATOR)[0] ?? "")) continue;
        await rm(join(this.#folder, name), { force: true });
      }
    } finally {
      lease.release();
    }
  }
}

const DOES_NOT_FIT =
  "The file does not fit on the server's disk. Free some space there, or send a smaller file.";

function throwStorageError(error: unknown): never {
  throw toStorageError(error, DOES_NOT_FIT);
}
