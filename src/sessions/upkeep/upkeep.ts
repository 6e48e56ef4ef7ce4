import type { EventLog, SessionRow } from "../../log/port.ts";
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
  #forget = (): void => {};

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
    const sweep = (): void => {
      if (this.#ended) return;
      this.#recovery
        .run()
        .catch((error: unknown) =>
          logger({ level: "error", message: "the sweep failed", error: String(error) }),
        );
    };
    this.#sweep = setInterval(sweep, limits.sweepMs);
    this.#sweep.unref();
    this.#forget = this.#deps.lease.onGone(sweep);
    this.#reaping = setInterval(() => void this.#reap(), REAP_MS);
    this.#reaping.unref();
  }

  end(): void {
    this.#ended = true;
    clearInterval(this.#sweep);
    clearInterval(this.#reaping);
    this.#forget();
  }

  /** Never fails: the next round tries again. */
  async #reap(): Promise<void> {
    const { log, limits, logger, lease } = this.#deps;
    if (lease.isShared) await endForeign(this.#providers, this.#deps);
    const isElsewhere = (row: SessionRow): boolean => lease.isShared && !lease.isFree(row.owner);
    const sandboxes = { providers: this.#providers, log, ttlMs: limits.sandboxTtlMs, isElsewhere };
    await reapSandboxes({ ...sandboxes, logger });
  }
}

/** Ends all processes in the sandboxes of this machine, for a node whose sessions others run by now. */
export async function endProcesses(
  providers: readonly SandboxProvider[],
  isEnded: (session: string | undefined) => boolean | Promise<boolean> = () => true,
): Promise<void> {
  for (const provider of providers)
    for (const { id, session } of (await provider.list?.().catch(() => [])) ?? [])
      if (await isEnded(session)) await (await provider.connect(id).catch(() => undefined))?.killAll();
}

/** Ends agents that an earlier life of this node has left behind, and whose session is with another node by now. */
async function endForeign(
  providers: readonly SandboxProvider[],
  { log, lease, logger }: Pick<SessionDeps, "log" | "lease" | "logger">,
): Promise<void> {
  const isForeign = async (session: string | undefined): Promise<boolean> => {
    const row = session === undefined ? undefined : await log.find(session);
    if (!row) return false;
    await lease.refresh();
    return !lease.isFree(row.owner);
  };
  await endProcesses(providers, isForeign).catch((error: unknown) =>
    logger({
      level: "warn",
      message: "agents of an earlier server could not be ended",
      error: String(error),
    }),
  );
}

/** Ends the sandboxes of removed sessions, and of sessions that ended long ago. One that names no session stays. */
export async function reapSandboxes(options: {
  providers: readonly SandboxProvider[];
  log: EventLog;
  ttlMs: number;
  logger: Logger;
  /** Whether another node has the session: only that node decides about it. */
  isElsewhere?: (row: SessionRow) => boolean;
}): Promise<void> {
  const { providers, log, ttlMs, logger, isElsewhere = () => false } = options;
  for (const provider of providers) {
    const found = await provider.list?.().catch((error: unknown) => {
      const message = "the sandboxes of a provider could not be listed";
      logger({ level: "warn", message, provider: provider.id, error: String(error) });
      return [];
    });
    for (const { id, session } of found ?? []) {
      try {
        if (session === undefined || (await isNeeded(log, { id, session, ttlMs, isElsewhere }))) continue;
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
  sandbox: { id: string; session: string; ttlMs: number; isElsewhere: (row: SessionRow) => boolean },
): Promise<boolean> {
  const row = await log.find(sandbox.session);
  if (!row) return false;
  if (sandbox.isElsewhere(row)) return true;
  if (isPastLost(row)) return true;
  const fold = await loadFold(log, row);
  if (fold.moving?.id === sandbox.id) return true;
  if (fold.sandbox?.id !== sandbox.id) return false;
  return fold.ended === null || Date.now() - row.updatedAt < sandbox.ttlMs;
}
