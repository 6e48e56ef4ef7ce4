/** Many may be inside at a time, or one alone. */
export class Gate {
  #inside = 0;
  #alone: Promise<void> = Promise.resolve();
  #empty: (() => void) | undefined;

  async together<T>(work: () => Promise<T>): Promise<T> {
    for (let before; before !== this.#alone;) {
      before = this.#alone;
      await before;
    }
    this.#inside += 1;
    try {
      return await work();
    } finally {
      this.#inside -= 1;
      if (this.#inside === 0) this.#empty?.();
    }
  }

  alone<T>(work: () => Promise<T>): Promise<T> {
    const before = this.#alone;
    const done = this.#afterAll(before, work);
    this.#alone = done.then(
      () => {},
      () => {},
    );
    return done;
  }

  async #afterAll<T>(before: Promise<void>, work: () => Promise<T>): Promise<T> {
    await before;
    if (this.#inside > 0) await new Promise<void>((empty) => (this.#empty = empty));
    this.#empty = undefined;
    return work();
  }
}
