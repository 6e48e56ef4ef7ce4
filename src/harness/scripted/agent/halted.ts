/** Why a turn stops before its script does. */
export class Halted extends Error {
  readonly how: "interrupted" | "abandoned";

  /** `abandoned`: another prompt came while the model's failure stood, so the turn was ended by others; say nothing. */
  constructor(how: "interrupted" | "abandoned") {
    super(how);
    this.how = how;
  }
}

/** Ends the turn with stop reason `refusal`. */
export class Refused extends Error {}

/** Waits for a promise, or for the halt, whichever comes first. */
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
