import type { ByteFiles } from "../bytes/files.ts";
import { bytesMissing } from "../refusals.ts";
import type { Statements } from "./statements.ts";
import type { Transact } from "../../sqlite/transact.ts";
import type { Transactions } from "./transactions.ts";

/** How long a content may be in somebody's hand before it is taken for forgotten. */
const HOLD_MS = 60 * 60_000;

export interface ByteRowsOptions {
  readonly files: ByteFiles;
  readonly sql: Statements;
  /** On the spot, for whoever has the connection already. */
  readonly transact: Transact;
  readonly transactions: Transactions;
  readonly now: () => number;
}

/** Keeps files and rows in step: files are removed only under the write lock, where nobody can begin to need one. */
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

  /** Before the file appears. */
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

  /** Inside the transaction: these, and no others any more. */
  use(document: number, hashes: readonly string[]): void {
    this.#sql.doubtUses.run(document);
    this.#sql.dropUses.run(document);
    for (const hash of hashes) {
      if (this.#files.sizeOf(hash) === undefined) throw bytesMissing(hash);
      this.#sql.addUse.run(document, hash);
    }
  }

  /** Removes the files that nobody needs, for whoever has the connection. What fails is tried again at the next occasion. */
  settle(): void {
    try {
      if (this.#sql.expiring.get(this.#now()) === undefined && this.#sql.doubts.get() === undefined) return;
      this.#transact(() => this.#removeUnused());
    } catch {
      // The doubts are still on record, and a file too many harms nobody.
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
