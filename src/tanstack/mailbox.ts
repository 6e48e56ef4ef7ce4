const HIGH_WATER = 256;

/** Several writers, one reader. Ends when it is closed, or fails as it was failed. */
export class Mailbox<T> implements AsyncIterable<T> {
  readonly #waiting: T[] = [];
  #end: { readonly error?: unknown } | undefined;
  #wake: () => void = () => {};
  #paused: (() => void)[] = [];

  /** Resolves when there is room for more: a writer that waits for it never outruns the reader by far. */
  async put(item: T): Promise<void> {
    if (this.#end) return;
    this.#waiting.push(item);
    this.#wake();
    if (this.#waiting.length >= HIGH_WATER) await new Promise<void>((resolve) => this.#paused.push(resolve));
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
          if (this.#waiting.length < HIGH_WATER / 2) this.#goOn();
          yield item;
          continue;
        }
        if (this.#end && "error" in this.#end) throw this.#end.error;
        if (this.#end) return;
        await new Promise<void>((resolve) => (this.#wake = resolve));
      }
    } finally {
      // The reader has gone: nobody writes for it any more.
      this.#finish({});
    }
  }

  #finish(end: { readonly error?: unknown }): void {
    this.#end ??= end;
    this.#wake();
    this.#goOn();
  }

  #goOn(): void {
    for (const resolve of this.#paused.splice(0)) resolve();
  }
}
