/** Who waits for the end of which turn. */
export class TurnEnds {
  readonly #waiting = new Map<string, (() => void)[]>();

  /** Settles when the turn has ended, or the session was let go. */
  of(turnId: string): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.set(turnId, [...(this.#waiting.get(turnId) ?? []), resolve]);
    });
  }

  /** Lets all go on but those whose turn still runs. */
  settle(running: string | undefined): void {
    for (const [turnId, waiters] of this.#waiting) {
      if (turnId === running) continue;
      this.#waiting.delete(turnId);
      for (const resolve of waiters) resolve();
    }
  }
}
