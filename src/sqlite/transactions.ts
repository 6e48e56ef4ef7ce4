import type { Driver } from "./driver.ts";
import { toSluiceError } from "./failure.ts";

/**
 * The queue of one connection. A commit waits for the disk, so it runs on another thread. Until it is over, callers wait
 * in order: the connection must not be used meanwhile.
 */
export class Transactions {
  readonly #gate = new Gate();
  readonly #driver: Driver;
  readonly #folder: string;
  readonly #transact: TransactBeside;

  constructor(driver: Driver, folder: string) {
    this.#driver = driver;
    this.#folder = folder;
    this.#transact = createTransactBeside(driver);
  }

  read<T>(work: () => T): Promise<T> {
    return this.#gate.pass(work).catch((error: unknown) => this.#fail(error));
  }

  /** Stores all of the work, or none. `afterwards` runs after the commit, before the next caller. */
  write<T>(work: () => T, afterwards: () => void = () => {}): Promise<T> {
    const write = (): Promise<T> => {
      const written = this.#transact(work).then((result) => {
        afterwards();
        return result;
      });
      this.#gate.hold(written);
      return written;
    };
    return this.#gate.pass(write).catch((error: unknown) => this.#fail(error));
  }

  close(): Promise<void> {
    return this.#gate.pass(() => this.#driver.close());
  }

  #fail(error: unknown): never {
    throw toSluiceError(error, this.#folder);
  }
}

/** Runs the work in one transaction: all of it is stored, or none. */
export type Transact = <T>(work: () => T) => T;

/** As `Transact`, with the commit on another thread. Until it settles the connection must not be used. */
export type TransactBeside = <T>(work: () => T) => Promise<T>;

export function createTransact(driver: Driver): Transact {
  const begin = driver.prepare("BEGIN IMMEDIATE");
  const commit = driver.prepare("COMMIT");
  const rollBack = createRollBack(driver);
  return (work) => {
    begin.run();
    try {
      const result = work();
      commit.run();
      return result;
    } catch (error) {
      rollBack();
      throw error;
    }
  };
}

export function createTransactBeside(driver: Driver): TransactBeside {
  const begin = driver.prepare("BEGIN IMMEDIATE");
  const rollBack = createRollBack(driver);
  return async (work) => {
    begin.run();
    try {
      const result = work();
      await driver.execBeside("COMMIT");
      return result;
    } catch (error) {
      rollBack();
      throw error;
    }
  };
}

function createRollBack(driver: Driver): () => void {
  const rollback = driver.prepare("ROLLBACK");
  return () => {
    try {
      rollback.run();
    } catch {
      // A full disk makes SQLite roll back by itself.
    }
  };
}

/** Lets callers pass while it is open. While it is held they wait, and pass in order afterwards. */
export class Gate {
  readonly #waiting: (() => void)[] = [];
  #held = false;

  get isHeld(): boolean {
    return this.#held;
  }

  /** Runs the work as soon as the gate is open. */
  async pass<T>(work: () => T | Promise<T>): Promise<T> {
    if (!this.#held) return work();
    return new Promise<T>((resolve, reject) => {
      this.#waiting.push(() => {
        try {
          resolve(work());
        } catch (error) {
          reject(error as Error);
        }
      });
    });
  }

  /** Keeps callers waiting until the promise has settled. */
  hold(until: Promise<unknown>): void {
    this.#held = true;
    const open = (): void => {
      this.#held = false;
      // A caller may hold the gate again.
      while (!this.#held && this.#waiting.length > 0) this.#waiting.shift()?.();
    };
    until.then(open, open);
  }
}
