import { setImmediate } from "node:timers/promises";

const SLICE_MS = 4;

/**
 * Synchronous file calls are several times cheaper than asynchronous ones for small files.
 * Whoever makes many asks here between them, so that everybody else gets a turn every few milliseconds.
 */
export class Slice {
  readonly #signal: AbortSignal | undefined;
  #since = performance.now();

  constructor(signal: AbortSignal | undefined) {
    this.#signal = signal;
  }

  get due(): boolean {
    return performance.now() - this.#since > SLICE_MS;
  }

  async rest(): Promise<void> {
    this.#signal?.throwIfAborted();
    await setImmediate();
    this.#since = performance.now();
  }
}
