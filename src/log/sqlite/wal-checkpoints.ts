import type { Driver } from "../../sqlite/driver.ts";

/** A WAL checkpoint starts after this many new bytes. */
const WORTH_BYTES = 4 * 1024 * 1024;
const LULL_MS = 50;

/**
 * Copies the write-ahead log into the database. The copy waits for the disk, so it runs on another thread and
 * connection.
 */
export class WalCheckpoints {
  readonly #open: () => Driver;
  #driver: Driver | undefined;
  #written = 0;
  #running: Promise<void> | undefined;
  #lull: NodeJS.Timeout | undefined;

  constructor(open: () => Driver) {
    this.#open = open;
  }

  /** Counts the bytes of a commit; the store calls it after each. */
  wrote(bytes: number): void {
    this.#written += bytes;
    // The last checkpoint waits for a pause: it reaches the end of the WAL only while nothing is written.
    this.#lull?.refresh();
    if (this.#written >= WORTH_BYTES) this.#start();
  }

  /**
   * Serialises a state of a session and counts its length. The fold of a session with a long queue is larger than its
   * events, and is written with every turn.
   */
  countState(state: unknown): string {
    const text = JSON.stringify(state);
    this.#written += text.length;
    return text;
  }

  async close(): Promise<void> {
    // The current run sets the timer once more at its end.
    await this.#running;
    clearTimeout(this.#lull);
    this.#driver?.close();
  }

  #start(): void {
    if (this.#running) return;
    this.#written = 0;
    this.#running = this.#run().finally(() => {
      this.#running = undefined;
      this.#lull ??= setTimeout(() => this.#afterLull(), LULL_MS).unref();
    });
  }

  #afterLull(): void {
    this.#lull = undefined;
    if (this.#written > 0) this.#start();
  }

  async #run(): Promise<void> {
    try {
      this.#driver ??= this.#open();
      await this.#driver.execBeside("PRAGMA wal_checkpoint(PASSIVE)");
    } catch {
      // A full disk, or another process at work; SQLite tries again by itself when the log has grown.
    }
  }
}
