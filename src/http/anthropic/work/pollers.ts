/** A worker that has not polled for this long counts as gone. */
const POLLING_MS = 10_000;

/** The workers that have polled lately. Clients choose any number of names, so each poll forgets the old ones. */
export class Pollers {
  /** The time of the last poll by worker, the oldest first. */
  readonly #polls = new Map<string, { readonly environment: string; readonly at: number }>();

  get size(): number {
    return this.#polls.size;
  }

  note(environment: string, worker: string, now: number): void {
    const key = `${environment} ${worker}`;
    this.#polls.delete(key);
    this.#polls.set(key, { environment, at: now });
    this.#forgetOld(now);
  }

  /** How many workers of an environment have polled lately. */
  count(environment: string, now: number): number {
    this.#forgetOld(now);
    return [...this.#polls.values()].filter((poll) => poll.environment === environment).length;
  }

  #forgetOld(now: number): void {
    for (const [key, { at }] of this.#polls) {
      if (now - at <= POLLING_MS) return;
      this.#polls.delete(key);
    }
  }
}
