import type { Access } from "./access.ts";
import type { Tokens } from "./tokens.ts";

const ROUND_MS = 1_000;

/** Ends open responses whose token is revoked or has expired, within about a second. */
export class TokenWatch {
  readonly #tokens: Tokens | undefined;
  readonly #open = new Map<string, Set<() => void>>();
  #timer: NodeJS.Timeout | undefined;

  constructor(tokens: Tokens | undefined) {
    this.#tokens = tokens;
  }

  /** Calls `end` when the token of the access is no longer valid. The returned function ends the watch. */
  hold({ token }: Access, end: () => void): () => void {
    if (token === undefined || !this.#tokens) return () => {};
    const ends = this.#open.get(token) ?? new Set();
    this.#open.set(token, ends.add(end));
    this.#timer ??= this.#start();
    return () => {
      ends.delete(end);
      if (ends.size === 0 && this.#open.get(token) === ends) this.#open.delete(token);
      if (this.#open.size > 0) return;
      clearInterval(this.#timer);
      this.#timer = undefined;
    };
  }

  #start(): NodeJS.Timeout {
    const timer = setInterval(() => void this.#round(), ROUND_MS);
    timer.unref();
    return timer;
  }

  async #round(): Promise<void> {
    for (const [token, ends] of this.#open) {
      // A catalog that cannot be read ends nothing: the next request is refused by it.
      const isLive = (await this.#tokens?.isLive(token).catch(() => true)) ?? true;
      if (!isLive) for (const end of ends) end();
    }
  }
}
