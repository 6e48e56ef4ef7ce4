import type { Blob } from "../outline.ts";
import type { NewSegment } from "../segment.ts";
import type { BlobFiles } from "./blob-files.ts";
import type { Statements } from "./statements.ts";
import type { Transact } from "../../sqlite/transact.ts";

/**
 * Keeps files and rows in step. A file is in doubt (a row says so) from before it is written until a use of it commits,
 * and again when its uses go; files are removed only under the write lock, where no commit can slip in between.
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

  /** Before the transaction that uses them. */
  write(blobs: readonly Blob[]): void {
    this.#transact(() => {
      for (const { hash } of blobs) this.#sql.addDoubt.run(hash);
    });
    for (const blob of blobs) this.#files.write(blob);
  }

  /** Inside the transaction. Writes again what a removal elsewhere took away in the meantime. */
  use(session: number, segment: NewSegment): void {
    for (const blob of segment.blobs) {
      this.#files.write(blob);
      this.#sql.addUse.run(session, segment.last, blob.hash);
      this.#sql.dropDoubt.run(blob.hash);
    }
  }

  /** Inside the transaction. */
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

  /** Removes the files in doubt that nothing uses. What fails here is tried again at the next start. */
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
      // The doubts are still on record, and a file too many harms nobody.
    }
  }
}
