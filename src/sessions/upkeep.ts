import type { SandboxProvider } from "../sandbox/port.ts";
import type { SessionDeps } from "./deps.ts";
import type { OpenSessions } from "./openSessions.ts";
import { reapSandboxes } from "./reaper.ts";

const REAP_MS = 3_600_000;

/** What an engine sees to by itself: sessions whose owner has died, sandboxes that nobody needs any more. */
export class Upkeep {
  readonly #deps: SessionDeps;
  readonly #providers: readonly SandboxProvider[];
  readonly #open: OpenSessions;
  #sweep: NodeJS.Timeout | undefined;
  #reaping: NodeJS.Timeout | undefined;
  #ended = false;

  constructor(deps: SessionDeps, providers: readonly SandboxProvider[], open: OpenSessions) {
    this.#deps = deps;
    this.#providers = providers;
    this.#open = open;
  }

  /** Sees to all of it, and again from time to time: another server on the same log may die later. */
  async begin(): Promise<void> {
    const { limits, logger } = this.#deps;
    await this.#open.recover();
    if (!this.#ended) await this.#reap();
    if (this.#ended) return;
    this.#sweep = setInterval(() => {
      this.#open
        .recover()
        .catch((error: unknown) =>
          logger({ level: "error", message: "the sweep failed", error: String(error) }),
        );
    }, limits.sweepMs);
    this.#sweep.unref();
    this.#reaping = setInterval(() => void this.#reap(), REAP_MS);
    this.#reaping.unref();
  }

  end(): void {
    this.#ended = true;
    clearInterval(this.#sweep);
    clearInterval(this.#reaping);
  }

  /** Never fails: what is left now is looked at the next time. */
  async #reap(): Promise<void> {
    const { log, limits, logger } = this.#deps;
    await reapSandboxes({ providers: this.#providers, log, ttlMs: limits.sandboxTtlMs, logger });
  }
}
