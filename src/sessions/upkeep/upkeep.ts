import type { EventLog } from "../../log/port.ts";
import type { SandboxProvider } from "../../sandbox/port.ts";
import type { SessionDeps, Logger } from "../deps.ts";
import { isPastLost, loadFold } from "../fold/load.ts";
import type { Recovery } from "../lifecycle/recovery.ts";

const REAP_MS = 3_600_000;

/** The engine's regular work: recovery of abandoned sessions, removal of unneeded sandboxes. */
export class Upkeep {
  readonly #deps: SessionDeps;
  readonly #providers: readonly SandboxProvider[];
  readonly #recovery: Recovery;
  #sweep: NodeJS.Timeout | undefined;
  #reaping: NodeJS.Timeout | undefined;
  #ended = false;

  constructor(deps: SessionDeps, providers: readonly SandboxProvider[], recovery: Recovery) {
    this.#deps = deps;
    this.#providers = providers;
    this.#recovery = recovery;
  }

  /** Runs all of it now, and again from time to time: another server on the same log may die later. */
  async begin(): Promise<void> {
    const { limits, logger } = this.#deps;
    await this.#recovery.run();
    if (!this.#ended) await this.#reap();
    if (this.#ended) return;
    this.#sweep = setInterval(() => {
      this.#recovery
        .run()
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

  /** Never fails: the next round tries again. */
  async #reap(): Promise<void> {
    const { log, limits, logger } = this.#deps;
    await reapSandboxes({ providers: this.#providers, log, ttlMs: limits.sandboxTtlMs, logger });
  }
}

/** Ends sandboxes without a session, and those of sessions that ended long ago. */
export async function reapSandboxes(options: {
  providers: readonly SandboxProvider[];
  log: EventLog;
  ttlMs: number;
  logger: Logger;
}): Promise<void> {
  const { providers, log, ttlMs, logger } = options;
  for (const provider of providers) {
    const found = await provider.list?.().catch((error: unknown) => {
      const message = "the sandboxes of a provider could not be listed";
      logger({ level: "warn", message, provider: provider.id, error: String(error) });
      return [];
    });
    for (const { id, session } of found ?? []) {
      try {
        if (session === undefined || (await isNeeded(log, { id, session, ttlMs }))) continue;
        await (await provider.connect(id))?.destroy();
        logger({
          level: "info",
          message: "ended an unneeded sandbox",
          sandbox: id,
          session,
        });
      } catch (error) {
        logger({ level: "warn", message: "a sandbox could not be ended", sandbox: id, error: String(error) });
      }
    }
  }
}

async function isNeeded(
  log: EventLog,
  sandbox: { id: string; session: string; ttlMs: number },
): Promise<boolean> {
  const row = await log.find(sandbox.session);
  if (!row) return false;
  if (isPastLost(row)) return true;
  const fold = await loadFold(log, row);
  if (fold.sandbox?.id !== sandbox.id) return false;
  return fold.ended === null || Date.now() - row.updatedAt < sandbox.ttlMs;
}
