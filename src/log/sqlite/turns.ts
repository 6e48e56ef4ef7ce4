import { toSluiceError } from "../../sqlite/failure.ts";
import type { Transact } from "../../sqlite/transactions.ts";
import type { KeptFold, KeptHistory, KeptTurn, TurnRows } from "../kept/turns.ts";
import type { Statements } from "./statements.ts";

/** The tables `turns` and `folds`. */
export class SqliteTurns implements TurnRows {
  readonly #sql: Statements;
  readonly #transact: Transact;
  readonly #folder: string;

  constructor(sql: Statements, transact: Transact, folder: string) {
    this.#sql = sql;
    this.#transact = transact;
    this.#folder = folder;
  }

  list(ordinal: number, { before, limit }: { before: number; limit: number }): KeptTurn[] {
    const rows = this.#attempt(() => this.#sql.turns.all(ordinal, before, limit));
    return rows.map((row) => ({
      from: Number(row.began),
      last: Number(row.last),
      outline: String(row.outline),
    }));
  }

  foldAt(ordinal: number, sequence: number): KeptFold | undefined {
    const row = this.#attempt(() => this.#sql.foldAt.get(ordinal, sequence));
    return row && { at: Number(row.at), state: String(row.state) };
  }

  add(ordinal: number, history: KeptHistory): void {
    // The session may be gone by now: its rows must not be left behind.
    this.#attempt(() =>
      this.#transact(() => {
        if (this.#sql.lease.get(ordinal) !== undefined) this.write(ordinal, history);
      }),
    );
  }

  /** Call it in a transaction. */
  write(ordinal: number, { turns, folds }: KeptHistory): void {
    for (const { last, from, outline } of turns) this.#sql.addTurn.run(ordinal, last, from, outline);
    for (const { at, state } of folds) this.#sql.addFold.run(ordinal, at, state);
  }

  /** Forgets the turns that have ended up to this sequence, and the folds before it. Call it in a transaction. */
  trim(ordinal: number, through: number): void {
    this.#sql.dropTurns.run(ordinal, through);
    this.#sql.dropFolds.run(ordinal, through);
  }

  #attempt<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw toSluiceError(error, this.#folder);
    }
  }
}
