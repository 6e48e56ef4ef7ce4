/** One at a time, in the order of asking. A task that fails does not stop the next. */
export class Lock {
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;

  get isHeld(): boolean {
    return this.#waiting > 0;
  }

  run<T>(task: () => Promise<T>): Promise<T> {
    this.#waiting += 1;
    const result = this.#last.then(task).finally(() => {
      this.#waiting -= 1;
    });
    this.#last = result.catch(() => {});
    return result;
  }
}
