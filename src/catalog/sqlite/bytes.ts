import { createHash, randomBytes } from "node:crypto";
import { createReadStream, mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { mkdir, open, rename, rm, type FileHandle } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Readable } from "node:stream";
import { toSluiceError } from "../../sqlite/failure.ts";
import type { Transact, Transactions } from "../../sqlite/transactions.ts";
import type { Bytes, HeldBytes, StoredBytes, WriteBytesOptions } from "../port.ts";
import { bytesMissing, bytesTooLarge } from "../refusals.ts";
import type { Statements } from "./statements.ts";

const HASH = /^[0-9a-f]{64}$/;

/** Stored bytes in files, and rows that record their uses. */
export class FileBytes implements Bytes {
  readonly #files: ByteFiles;
  readonly #rows: ByteRows;
  readonly #folder: string;

  constructor(files: ByteFiles, rows: ByteRows, folder: string) {
    this.#files = files;
    this.#rows = rows;
    this.#folder = folder;
  }

  async write(
    source: AsyncIterable<Uint8Array>,
    { limit = Infinity }: WriteBytesOptions = {},
  ): Promise<HeldBytes> {
    try {
      const staged = await this.#files.stage(source, limit);
      const { hash, size } = staged;
      let hold: number | undefined;
      try {
        hold = await this.#rows.hold(hash);
        await staged.keep();
      } catch (error) {
        await staged.discard();
        if (hold !== undefined) await this.#rows.release(hold);
        throw error;
      }
      return { hash, size, release: () => this.#rows.release(hold) };
    } catch (error) {
      throw toSluiceError(error, this.#folder);
    }
  }

  async read(hash: string): Promise<StoredBytes | undefined> {
    const size = HASH.test(hash) ? this.#files.sizeOf(hash) : undefined;
    if (size === undefined) return undefined;
    return { size, path: this.#files.pathOf(hash), stream: () => this.#files.stream(hash) };
  }
}

const ABANDONED_MS = 60 * 60_000;

/** A file that is complete on disk, but not yet under the name of its hash. */
export interface StagedFile {
  readonly hash: string;
  readonly size: number;
  keep(): Promise<void>;
  discard(): Promise<void>;
}

/** Content-addressed files, one each: `files/ab/abcd…`. */
export class ByteFiles {
  readonly #folder: string;
  readonly #staging: string;

  constructor(folder: string, { isReadOnly = false } = {}) {
    this.#folder = join(folder, "files");
    this.#staging = join(this.#folder, "drafts");
    if (isReadOnly) return;
    mkdirSync(this.#staging, { recursive: true, mode: 0o700 });
    this.#removeAbandoned();
  }

  /** Writes the source to a staged file. Only one chunk is in memory at a time. */
  async stage(source: AsyncIterable<Uint8Array>, limit: number): Promise<StagedFile> {
    const path = join(this.#staging, randomBytes(12).toString("hex"));
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

  // The rename replaces an equal file, even one that is about to be removed.
  async #keep(staged: string, hash: string): Promise<void> {
    const path = this.pathOf(hash);
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await rename(staged, path);
    const folder = await open(dirname(path), "r");
    await folder.sync().finally(() => folder.close());
  }

  /** Removes staged files of a process that died. */
  #removeAbandoned(): void {
    for (const name of readdirSync(this.#staging)) {
      const path = join(this.#staging, name);
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

/** A hold older than this counts as forgotten. */
const HOLD_MS = 60 * 60_000;

interface ByteRowsOptions {
  readonly files: ByteFiles;
  readonly sql: Statements;
  /** For a caller that has the connection already: does not wait in the queue. */
  readonly transact: Transact;
  readonly transactions: Transactions;
  readonly now: () => number;
}

/**
 * Keeps files and rows consistent. A row of `byte_doubts` marks a file that may be unused. Files are removed only under
 * the write lock, where no new use can begin.
 */
export class ByteRows {
  readonly #files: ByteFiles;
  readonly #sql: Statements;
  readonly #transact: Transact;
  readonly #transactions: Transactions;
  readonly #now: () => number;

  constructor({ files, sql, transact, transactions, now }: ByteRowsOptions) {
    this.#files = files;
    this.#sql = sql;
    this.#transact = transact;
    this.#transactions = transactions;
    this.#now = now;
  }

  /** Holds a hash, before its file gets its name. */
  hold(hash: string): Promise<number> {
    return this.#transactions.write(() => {
      this.#sql.addDoubt.run(hash);
      return Number(this.#sql.addHold.get(hash, this.#now() + HOLD_MS)?.["id"]);
    });
  }

  async release(hold: number): Promise<void> {
    await this.#transactions.write(
      () => this.#sql.dropHold.run(hold),
      () => this.settle(),
    );
  }

  /** Replaces the uses of a document, inside the transaction. */
  use(document: number, hashes: readonly string[]): void {
    this.#sql.doubtUses.run(document);
    this.#sql.dropUses.run(document);
    for (const hash of hashes) {
      if (this.#files.sizeOf(hash) === undefined) throw bytesMissing(hash);
      this.#sql.addUse.run(document, hash);
    }
  }

  /** Removes unused files. Call it only while you hold the connection. A failed removal is tried again later. */
  settle(): void {
    try {
      if (this.#sql.expiring.get(this.#now()) === undefined && this.#sql.doubts.get() === undefined) return;
      this.#transact(() => this.#removeUnused());
    } catch {
      // The unused file stays on record for the next try, and an extra file does no harm.
    }
  }

  #removeUnused(): void {
    const now = this.#now();
    for (const row of this.#sql.expiring.all(now)) {
      const document = Number(row["ordinal"]);
      this.use(document, []);
      this.#sql.stopExpiring.run(document);
    }
    this.#sql.dropOldHolds.run(now);
    for (const row of this.#sql.doubts.all()) {
      const hash = String(row["hash"]);
      if (this.#sql.isHeld.get(hash) !== undefined) continue;
      if (this.#sql.isUsed.get(hash) === undefined) this.#files.remove(hash);
      this.#sql.dropDoubt.run(hash);
    }
  }
}
