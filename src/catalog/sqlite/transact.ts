import type { Driver } from "./driver.ts";

/** Runs the work in one transaction: all of it is there afterwards, or none. */
export type Transact = <T>(work: () => T) => T;

export function createTransact(driver: Driver): Transact {
  return (work) => {
    driver.exec("BEGIN IMMEDIATE");
    try {
      const result = work();
      driver.exec("COMMIT");
      return result;
    } catch (error) {
      try {
        driver.exec("ROLLBACK");
      } catch {
        // A full disk makes SQLite roll back by itself.
      }
      throw error;
    }
  };
}
