import type { Driver } from "./driver.ts";

/** Runs the work in one transaction: all of it is there afterwards, or none. */
export type Transact = <T>(work: () => T) => T;

/** The same, with its commit beside this thread: until it settles nobody may use the connection. */
export type TransactBeside = <T>(work: () => T) => Promise<T>;

export function createTransact(driver: Driver): Transact {
  const begin = driver.prepare("BEGIN IMMEDIATE");
  const commit = driver.prepare("COMMIT");
  const takeBack = createTakeBack(driver);
  return (work) => {
    begin.run();
    try {
      const result = work();
      commit.run();
      return result;
    } catch (error) {
      takeBack();
      throw error;
    }
  };
}

export function createTransactBeside(driver: Driver): TransactBeside {
  const begin = driver.prepare("BEGIN IMMEDIATE");
  const takeBack = createTakeBack(driver);
  return async (work) => {
    begin.run();
    try {
      const result = work();
      await driver.execBeside("COMMIT");
      return result;
    } catch (error) {
      takeBack();
      throw error;
    }
  };
}

function createTakeBack(driver: Driver): () => void {
  const rollback = driver.prepare("ROLLBACK");
  return () => {
    try {
      rollback.run();
    } catch {
      // A full disk makes SQLite roll back by itself.
    }
  };
}
