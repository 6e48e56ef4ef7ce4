import { availableParallelism } from "node:os";

/** A start keeps a core busy. One core stays free for the requests to other sessions (docs/decisions/0056). */
export const DEFAULT_STARTS_AT_ONCE: number = Math.max(1, availableParallelism() - 1);

/** Leaves the queue. Further calls have no effect. */
export type Leave = () => void;

/** Bounds the starts of agents at one time. The others wait in the order of arrival (docs/decisions/0035). */
export class StartQueue {
  readonly #limit: number;
  /** In the order of arrival. */
  readonly #waiting = new Set<() => void>();
  #starting = 0;
  #admitted = 0;
  #withdrawn = 0;

  constructor(limit: number) {
    this.#limit = Math.max(1, limit);
  }

  get stats(): { waiting: number; starting: number; admitted: number; withdrawn: number } {
    const { size: waiting } = this.#waiting;
    return { waiting, starting: this.#starting, admitted: this.#admitted, withdrawn: this.#withdrawn };
  }

  /** Resolves when the start may begin; with undefined when it was withdrawn before. */
  async enter(withdrawn: AbortSignal): Promise<Leave | undefined> {
    if (withdrawn.aborted) return undefined;
    if (this.#starting < this.#limit) return this.#admit();
    return new Promise((resolve) => {
      const admit = (): void => {
        withdrawn.removeEventListener("abort", giveUp);
        resolve(this.#admit());
      };
      const giveUp = (): void => {
        this.#waiting.delete(admit);
        this.#withdrawn += 1;
        resolve(undefined);
      };
      this.#waiting.add(admit);
      withdrawn.addEventListener("abort", giveUp, { once: true });
    });
  }

  #admit(): Leave {
    this.#starting += 1;
    this.#admitted += 1;
    let isIn = true;
    return () => {
      if (!isIn) return;
      isIn = false;
      this.#starting -= 1;
      this.#next();
    };
  }

  #next(): void {
    const [first] = this.#waiting;
    if (first === undefined || this.#starting >= this.#limit) return;
    this.#waiting.delete(first);
    first();
  }
}
