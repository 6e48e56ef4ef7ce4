import type { Logger } from "../deps.ts";
import { messageOf } from "../failure.ts";
import { isHeldElsewhere } from "./claim.ts";
import { isNotFound } from "../refusals.ts";

/** The delay after the first failure, and the longest delay. */
const FIRST_MS = 250;
const LAST_MS = 15_000;

/** Opens sessions again after a failed append, such as on a full disk. The delay doubles without progress. */
export class FailedAppends {
  readonly #logger: Logger;
  readonly #open: (id: string) => Promise<unknown>;
  readonly #timers = new Map<string, NodeJS.Timeout>();
  /** The head of the log and the delay at the last failure of a session. */
  readonly #failures = new Map<string, { readonly head: number; readonly delay: number }>();
  #isClosed = false;

  constructor(logger: Logger, open: (id: string) => Promise<unknown>) {
    this.#logger = logger;
    this.#open = open;
  }

  /** Whether the session waits to be opened again. */
  has(id: string): boolean {
    return this.#timers.has(id);
  }

  /** Call it when an append after this head of the log failed. */
  add({ id, head }: { id: string; head: number }, error: unknown): void {
    const last = this.#failures.get(id);
    const delay = last?.head === head ? toLonger(last.delay) : FIRST_MS;
    this.#failures.set(id, { head, delay });
    this.reopenLater(id, error, delay);
  }

  forget(id: string): void {
    this.#failures.delete(id);
  }

  reopenLater(id: string, error: unknown, delay: number = FIRST_MS): void {
    const message = "the session will be reopened";
    this.#logger({ level: "error", message, session: id, error: messageOf(error) });
    if (this.#isClosed || this.#timers.has(id)) return;
    const timer = setTimeout(() => {
      this.#timers.delete(id);
      this.#open(id).catch((again: unknown) => {
        if (!isNotFound(again) && !isHeldElsewhere(again)) this.reopenLater(id, again, toLonger(delay));
      });
    }, delay);
    this.#timers.set(id, timer);
  }

  close(): void {
    this.#isClosed = true;
    for (const timer of this.#timers.values()) clearTimeout(timer);
  }
}

function toLonger(delay: number): number {
  return Math.min(delay * 2, LAST_MS);
}
