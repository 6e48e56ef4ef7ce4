import type { EventLog } from "../log/port.ts";
import type { SandboxProvider } from "../sandbox/port.ts";
import type { Logger } from "./deps.ts";
import { isPastLost, loadFold } from "./load.ts";

/** Ends what outlived its session: sandboxes that no session knows, and those of sessions that ended long ago. */
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
          message: "ended a sandbox that nobody needs any more",
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
