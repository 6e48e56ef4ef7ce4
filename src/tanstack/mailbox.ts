/** Several writers, one reader. Ends when it is closed, or fails as it was failed. */
export class Mailbox<T> implements AsyncIterable<T> {
  readonly #waiting: T[] = [];
  #end: { readonly error?: unknown } | undefined;
  #wake: () => void = () => {};

  put(item: T): void {
    this.#waiting.push(item);
    this.#wake();
  }

  close(): void {
    this.#end ??= {};
    this.#wake();
  }

  fail(error: unknown): void {
    this.#end ??= { error };
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void> {
    for (;;) {
      const item = this.#waiting.shift();
      if (item !== undefined) {
        yield item;
        continue;
      }
      if (this.#end && "error" in this.#end) throw this.#end.error;
      if (this.#end) return;
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }
}
