import { createHash, randomBytes } from "node:crypto";
import { createReadStream, mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { type FileHandle, mkdir, open, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Readable } from "node:stream";
import { bytesTooLarge } from "../refusals.ts";

const ABANDONED_MS = 60 * 60_000;

/** A content on its way: complete and on the disk, but not yet under its name. */
export interface Draft {
  readonly hash: string;
  readonly size: number;
  keep(): Promise<void>;
  discard(): Promise<void>;
}

/** Content-addressed files, one each: `files/ab/abcd…`. */
export class ByteFiles {
  readonly #folder: string;
  readonly #drafts: string;

  constructor(folder: string) {
    this.#folder = join(folder, "files");
    this.#drafts = join(this.#folder, "drafts");
    mkdirSync(this.#drafts, { recursive: true, mode: 0o700 });
    this.#removeAbandoned();
  }

  /** One chunk in memory at a time, whatever the size. */
  async draft(source: AsyncIterable<Uint8Array>, limit: number): Promise<Draft> {
    const path = join(this.#drafts, randomBytes(12).toString("hex"));
    const discard = (): Promise<void> => rm(path, { force: true });
    try {
      const file = await open(path, "wx", 0o600);
      const { hash, size } = await fill(file, source, limit).finally(() => file.close());
      return { hash, size, discard, keep: () => this.#keep(path, hash) };
    } catch (error) {
      await discard();
      throw error;
    }
  }

  sizeOf(hash: string): number | undefined {
    return statSync(this.pathOf(hash), { throwIfNoEntry: false })?.size;
  }

  stream(hash: string): ReadableStream<Uint8Array> {
    return Readable.toWeb(createReadStream(this.pathOf(hash))) as ReadableStream<Uint8Array>;
  }

  remove(hash: string): void {
    rmSync(this.pathOf(hash), { force: true });
  }

  pathOf(hash: string): string {
    return join(this.#folder, hash.slice(0, 2), hash);
  }

  // Also over one that is there: it is the same, and nobody has to ask whether it is about to be removed.
  async #keep(draft: string, hash: string): Promise<void> {
    const path = this.pathOf(hash);
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await rename(draft, path);
    const folder = await open(dirname(path), "r");
    await folder.sync().finally(() => folder.close());
  }

  /** What a process that died left half written. */
  #removeAbandoned(): void {
    for (const name of readdirSync(this.#drafts)) {
      const path = join(this.#drafts, name);
      const touched = statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
      if (touched < Date.now() - ABANDONED_MS) rmSync(path, { force: true });
    }
  }
}

async function fill(
  file: FileHandle,
  source: AsyncIterable<Uint8Array>,
  limit: number,
): Promise<{ hash: string; size: number }> {
  const digest = createHash("sha256");
  let size = 0;
  for await (const chunk of source) {
    size += chunk.length;
    if (size > limit) throw bytesTooLarge(limit);
    digest.update(chunk);
    await file.writeFile(chunk);
  }
  await file.sync();
  return { hash: digest.digest("hex"), size };
}
