/** Runs tasks one at a time, in the order of the calls. A failed task does not stop the next. */
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

/** Whether the work takes longer than `patienceMs`. Undefined counts as on time. */
export async function isLate(work: Promise<void> | undefined, patienceMs: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<true>((resolve) => {
    timer = setTimeout(() => resolve(true), patienceMs);
  });
  const first = await Promise.race([work, late]);
  clearTimeout(timer);
  return first === true;
}
