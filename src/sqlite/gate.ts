/** Lets everybody pass, unless somebody holds it: then they wait, and pass in the order of coming. */
export class Gate {
  readonly #waiting: (() => void)[] = [];
  #held = false;

  get isHeld(): boolean {
    return this.#held;
  }

  /** Runs the work: on the spot where nobody holds the gate. */
  async pass<T>(work: () => T | Promise<T>): Promise<T> {
    if (!this.#held) return work();
    return new Promise<T>((resolve, reject) => {
      this.#waiting.push(() => {
        try {
          resolve(work());
        } catch (error) {
          reject(error as Error);
        }
      });
    });
  }

  /** Keeps the others out until the promise has settled. */
  hold(until: Promise<unknown>): void {
    this.#held = true;
    const open = (): void => {
      this.#held = false;
      // Whoever passes may hold it again.
      while (!this.#held && this.#waiting.length > 0) this.#waiting.shift()?.();
    };
    until.then(open, open);
  }
}
