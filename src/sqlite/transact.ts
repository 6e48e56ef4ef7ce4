import type { Driver } from "./driver.ts";

/** Runs the work in one transaction: all of it is there afterwards, or none. */
export type Transact = <T>(work: () => T) => T;

export function createTransact(driver: Driver): Transact {
  const begin = driver.prepare("BEGIN IMMEDIATE");
  const commit = driver.prepare("COMMIT");
  const rollback = driver.prepare("ROLLBACK");
  return (work) => {
    begin.run();
    try {
      const result = work();
      commit.run();
      return result;
    } catch (error) {
      try {
        rollback.run();
      } catch {
        // A full disk makes SQLite roll back by itself.
      }
      throw error;
    }
  };
}
