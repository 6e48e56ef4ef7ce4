import { randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { open, unlink, type FileHandle } from "node:fs/promises";
import { join } from "node:path";

const CHUNK = 1024 * 1024;

/**
 * Space on the log's disk, taken by an unlinked file while there is plenty and released in an emergency. The kernel
 * releases it when this process ends.
 */
export class Ballast {
  readonly #file: FileHandle;

  private constructor(file: FileHandle) {
    this.#file = file;
  }

  /** Undefined where the disk does not give the space. */
  static async take(folder: string, bytes: number): Promise<Ballast | undefined> {
    const path = join(folder, `.ballast-${randomBytes(8).toString("hex")}`);
    const { O_CREAT, O_EXCL, O_WRONLY } = constants;
    const file = await open(path, O_CREAT | O_EXCL | O_WRONLY, 0o600).catch(() => undefined);
    if (file === undefined) return undefined;
    try {
      await unlink(path);
      // Random bytes: a file system cannot compress them.
      const chunk = randomBytes(CHUNK);
      for (let at = 0; at < bytes; at += CHUNK) await file.write(chunk, 0, Math.min(CHUNK, bytes - at), at);
      return new Ballast(file);
    } catch {
      await file.close();
      return undefined;
    }
  }

  release(): Promise<void> {
    return this.#file.close();
  }
}
