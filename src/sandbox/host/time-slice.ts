import { setImmediate } from "node:timers/promises";

/**
 * A share of the thread's time. For small files, synchronous calls are several times cheaper than asynchronous ones.
 * Code with many such calls pauses when its slice is over, so that other work runs every few milliseconds.
 */
export class Slice {
  readonly #lengthMs: number;
  readonly #signal: AbortSignal | undefined;
  #begun = performance.now();
  #spent = 0;

  constructor({ lengthMs = 4, signal }: { lengthMs?: number; signal?: AbortSignal | undefined } = {}) {
    this.#lengthMs = lengthMs;
    this.#signal = signal;
  }

  get isOver(): boolean {
    return performance.now() - this.#begun > this.#lengthMs;
  }

  /** Working time without the pauses. */
  get spentMs(): number {
    return this.#spent + performance.now() - this.#begun;
  }

  async pause(): Promise<void> {
    this.#signal?.throwIfAborted();
    this.#spent += performance.now() - this.#begun;
    await setImmediate();
    this.#begun = performance.now();
  }
}
