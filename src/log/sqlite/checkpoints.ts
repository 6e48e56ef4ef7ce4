import type { Driver } from "../../sqlite/driver.ts";

/** Less than this is not worth a checkpoint. */
const WORTH_BYTES = 4 * 1024 * 1024;
const LULL_MS = 50;

/**
 * Copies what was written from the write-ahead log into the database, which waits for the disk: beside the thread and
 * on a connection of its own, so that nobody waits with it.
 */
export class Checkpoints {
  readonly #open: () => Driver;
  #driver: Driver | undefined;
  #written = 0;
  #running: Promise<void> | undefined;
  #lull: NodeJS.Timeout | undefined;

  constructor(open: () => Driver) {
    this.#open = open;
  }

  /** To call after each commit. */
  wrote(bytes: number): void {
    this.#written += bytes;
    // Only one that is made while nobody writes reaches the end, and lets the write-ahead log begin anew.
    this.#lull?.refresh();
    if (this.#written >= WORTH_BYTES) this.#start();
  }

  async close(): Promise<void> {
    // The one that runs sets the timer once more at its end.
    await this.#running;
    clearTimeout(this.#lull);
    this.#driver?.close();
  }

  #start(): void {
    if (this.#running) return;
    this.#written = 0;
    this.#running = this.#run().finally(() => {
      this.#running = undefined;
      this.#lull ??= setTimeout(() => this.#rest(), LULL_MS).unref();
    });
  }

  #rest(): void {
    this.#lull = undefined;
    if (this.#written > 0) this.#start();
  }

  async #run(): Promise<void> {
    try {
      this.#driver ??= this.#open();
      await this.#driver.execBeside("PRAGMA wal_checkpoint(PASSIVE)");
    } catch {
      // A full disk, or somebody else is at it; SQLite tries again by itself when much has come together.
    }
  }
}
