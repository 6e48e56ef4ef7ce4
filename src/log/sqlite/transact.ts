import type { Statements } from "./statements.ts";

/** Runs the work in one transaction: all of it is there afterwards, or none. */
export type Transact = <T>(work: () => T) => T;

export function createTransact(sql: Pick<Statements, "begin" | "commit" | "rollback">): Transact {
  return (work) => {
    sql.begin.run();
    try {
      const result = work();
      sql.commit.run();
      return result;
    } catch (error) {
      try {
        sql.rollback.run();
      } catch {
        // A full disk makes SQLite roll back by itself.
      }
      throw error;
    }
  };
}
