import type { Driver } from "../../sqlite/driver.ts";
import { toSluiceError } from "../../sqlite/failures.ts";
import { Gate } from "../../sqlite/gate.ts";
import { createTransactBeside, type TransactBeside } from "../../sqlite/transact.ts";

/**
 * The one connection's turns. A commit waits for the disk, so it runs beside this thread; until it is over nobody comes
 * near the connection, and whoever asks meanwhile has their turn in the order of coming.
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

  /** All of it is there afterwards, or none. `afterwards` runs behind the commit, before anybody else has their turn. */
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
