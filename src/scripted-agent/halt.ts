/** Stops a turn before the end of its script. It is the reason of the turn's abort signal. */
export class Halted extends Error {
  /**
   * `abandoned`: the turn waited for a retry when a new prompt or the end of stdin came. The engine has ended the turn
   * already, so the agent prints nothing more of it.
   */
  readonly how: "interrupted" | "abandoned";

  constructor(how: "interrupted" | "abandoned") {
    super(how);
    this.how = how;
  }
}

/** Ends the turn with stop reason `refusal`. */
export class Refused extends Error {}

/** Waits for a promise; rejects as soon as the turn is halted. */
export async function orHalted<T>(signal: AbortSignal, promise: Promise<T>): Promise<T> {
  signal.throwIfAborted();
  const listening = new AbortController();
  const halted = new Promise<never>((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason as Error), { signal: listening.signal });
  });
  try {
    return await Promise.race([promise, halted]);
  } finally {
    listening.abort();
  }
}
