/** The count of items at which writers have to wait. */
const HIGH_WATER = 256;

/** A queue with several writers and one reader. */
export class Mailbox<T> implements AsyncIterable<T> {
  readonly #waiting: T[] = [];
  #end: { readonly error?: unknown } | undefined;
  #wake: () => void = () => {};
  #pausedWriters: (() => void)[] = [];

  /** Resolves when there is room for more. */
  async put(item: T): Promise<void> {
    if (this.#end) return;
    this.#waiting.push(item);
    this.#wake();
    if (this.#waiting.length >= HIGH_WATER)
      await new Promise<void>((resolve) => this.#pausedWriters.push(resolve));
  }

  close(): void {
    this.#finish({});
  }

  fail(error: unknown): void {
    this.#finish({ error });
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void> {
    try {
      for (;;) {
        const item = this.#waiting.shift();
        if (item !== undefined) {
          if (this.#waiting.length < HIGH_WATER / 2) this.#resumeWriters();
          yield item;
          continue;
        }
        if (this.#end && "error" in this.#end) throw this.#end.error;
        if (this.#end) return;
        await new Promise<void>((resolve) => (this.#wake = resolve));
      }
    } finally {
      // The reader has gone, so writers must not wait.
      this.#finish({});
    }
  }

  #finish(end: { readonly error?: unknown }): void {
    this.#end ??= end;
    this.#wake();
    this.#resumeWriters();
  }

  #resumeWriters(): void {
    for (const resolve of this.#pausedWriters.splice(0)) resolve();
  }
}
