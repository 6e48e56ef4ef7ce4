import { createHash } from "node:crypto";
import {
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";
import type { Transact } from "../../sqlite/transactions.ts";
import type { Blob } from "../large-texts.ts";
import type { NewSegment } from "../segment.ts";
import type { Statements } from "./statements.ts";

/**
 * Keeps the files of blobs and the rows that use them consistent. A row marks a file as doubtful from before it is
 * written until a use of it commits, and again when its uses are removed. Doubtful files without a use are removed under
 * the write lock, so that no commit can come in between.
 */
export class Blobs {
  readonly #files: BlobFiles;
  readonly #sql: Statements;
  readonly #transact: Transact;

  constructor(files: BlobFiles, sql: Statements, transact: Transact) {
    this.#files = files;
    this.#sql = sql;
    this.#transact = transact;
  }

  /** Writes the files, before the transaction that uses them. */
  write(blobs: readonly Blob[]): void {
    this.#transact(() => {
      for (const { hash } of blobs) this.#sql.addDoubt.run(hash);
    });
    for (const blob of blobs) this.#files.write(blob);
  }

  /** Records the uses of a segment, inside the transaction. A blob that was removed meanwhile is written again. */
  use(session: number, segment: NewSegment): void {
    for (const blob of segment.blobs) {
      this.#files.write(blob);
      this.#sql.addUse.run(session, segment.last, blob.hash);
      this.#sql.dropDoubt.run(blob.hash);
    }
  }

  /** Removes a session's uses up to a sequence, inside the transaction. */
  letGo(session: number, through: number): void {
    this.#sql.doubtUses.run(session, through);
    this.#sql.dropUses.run(session, through);
  }

  read(hash: string): string | undefined {
    return this.#files.read(hash);
  }

  size(): number {
    return this.#files.size();
  }

  /** Removes the doubtful files that have no use. A failed removal is tried again at the next start. */
  settle(): void {
    try {
      if (this.#sql.doubts.get() === undefined) return;
      this.#transact(() => {
        for (const { hash } of this.#sql.doubts.all()) {
          if (this.#sql.isUsed.get(String(hash)) === undefined) this.#files.remove(String(hash));
          this.#sql.dropDoubt.run(String(hash));
        }
      });
    } catch {
      // The files stay marked as doubtful, and an extra file does no harm.
    }
  }
}

/** Content-addressed texts, one file each: `blobs/ab/abcd…`. */
export class BlobFiles {
  readonly #folder: string;
  readonly #sync: boolean;
  /** The size of all files, counted at the first request and kept up to date since. */
  #bytes: number | undefined;

  constructor(folder: string, options: { sync: boolean }) {
    this.#folder = join(folder, "blobs");
    this.#sync = options.sync;
  }

  /** Writes atomically. A file that has this length already stays; a damaged one of another length is replaced. */
  write(blob: Blob): void {
    const path = this.#path(blob.hash);
    const bytes = Buffer.from(blob.text);
    if (statSync(path, { throwIfNoEntry: false })?.size === bytes.length) return;
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    const temporary = `${path}.${process.pid}.tmp`;
    try {
      const file = openSync(temporary, "w", 0o600);
      try {
        writeAll(file, bytes);
        if (this.#sync) fsyncSync(file);
      } finally {
        closeSync(file);
      }
      renameSync(temporary, path);
      if (this.#bytes !== undefined) this.#bytes += bytes.length;
      if (this.#sync) syncFolder(dirname(path));
    } catch (error) {
      rmSync(temporary, { force: true });
      throw error;
    }
  }

  /** Undefined where the file is missing or its content does not match its name. */
  read(hash: string): string | undefined {
    try {
      const bytes = readFileSync(this.#path(hash));
      return createHash("sha256").update(bytes).digest("hex") === hash ? bytes.toString() : undefined;
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
      throw error;
    }
  }

  /** Removes the file, and the temporary files of a writer that died. */
  remove(hash: string): void {
    const folder = dirname(this.#path(hash));
    if (statSync(folder, { throwIfNoEntry: false }) === undefined) return;
    for (const name of readdirSync(folder)) {
      if (!name.startsWith(hash)) continue;
      if (this.#bytes !== undefined) this.#bytes -= sizeOf(join(folder, name));
      rmSync(join(folder, name), { force: true });
    }
  }

  size(): number {
    this.#bytes ??= this.#count();
    return this.#bytes;
  }

  #count(): number {
    if (statSync(this.#folder, { throwIfNoEntry: false }) === undefined) return 0;
    let bytes = 0;
    for (const entry of readdirSync(this.#folder, { recursive: true, withFileTypes: true }))
      if (entry.isFile()) bytes += sizeOf(join(entry.parentPath, entry.name));
    return bytes;
  }

  #path(hash: string): string {
    return join(this.#folder, hash.slice(0, 2), hash);
  }
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

function syncFolder(path: string): void {
  const folder = openSync(path, "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

function writeAll(file: number, bytes: Buffer): void {
  for (let at = 0; at < bytes.length;) at += writeSync(file, bytes, at);
}
