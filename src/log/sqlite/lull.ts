/** Less than this is not worth a checkpoint of its own. */
const WORTH_BYTES = 4 * 1024 * 1024;
const LULL_MS = 50;

/** Notices that nobody has written for a moment, after much was written. */
export class Lull {
  readonly #onLull: () => void;
  #timer: NodeJS.Timeout | undefined;
  #written = 0;

  constructor(onLull: () => void) {
    this.#onLull = onLull;
  }

  /** To call after each commit. */
  wrote(bytes: number): void {
    this.#written += bytes;
    if (this.#timer) this.#timer.refresh();
    else if (this.#written >= WORTH_BYTES) this.#timer = setTimeout(() => this.#rest(), LULL_MS).unref();
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #rest(): void {
    this.#timer = undefined;
    this.#written = 0;
    this.#onLull();
  }
}
