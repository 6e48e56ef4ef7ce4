const FOREVER_MS = 2 ** 30;

/** Those who wait for something to take. Whoever waits keeps the process alive; the watches alone do not. */
export class Waiters {
  readonly #waiting = new Set<() => void>();
  #alive: NodeJS.Timeout | undefined;

  wait(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const end = (): void => {
        this.#waiting.delete(woken);
        signal.removeEventListener("abort", aborted);
        if (this.#waiting.size > 0) return;
        clearInterval(this.#alive);
        this.#alive = undefined;
      };
      const woken = (): void => {
        end();
        resolve();
      };
      const aborted = (): void => {
        end();
        reject(signal.reason as Error);
      };
      this.#waiting.add(woken);
      signal.addEventListener("abort", aborted, { once: true });
      this.#alive ??= setInterval(() => {}, FOREVER_MS);
    });
  }

  wake(): void {
    for (const woken of this.#waiting) woken();
  }
}
