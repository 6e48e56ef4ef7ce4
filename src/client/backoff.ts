const FIRST_MS = 100;
const MOST_MS = 5_000;

/** Waits before the next try: 100 ms, doubling to 5 s, with jitter so that many clients do not return at once. */
export class Backoff {
  #tries = 0;

  /** Something came through: the next cut starts from the beginning. */
  reset(): void {
    this.#tries = 0;
  }

  /** Resolves early when `signal` aborts. */
  async wait(signal: AbortSignal): Promise<void> {
    const ceiling = Math.min(MOST_MS, FIRST_MS * 2 ** this.#tries);
    this.#tries += 1;
    await sleep(ceiling * (0.5 + Math.random() / 2), signal);
  }
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const wake = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", wake);
      resolve();
    };
    const timer = setTimeout(wake, ms);
    signal.addEventListener("abort", wake);
  });
}
