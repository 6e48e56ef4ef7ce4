import { setTimeout as sleep } from "node:timers/promises";
import { stderrLogger } from "../../http/context.ts";
import type { SandboxProvider } from "../../sandbox/port.ts";
import { endProcesses } from "../../sessions/upkeep/upkeep.ts";
import { EXIT } from "../terminal/failure.ts";
import { onInterrupt } from "../terminal/screen.ts";

/** The time limit for closing sessions, requests and files after the grace. */
export const CLOSING_MS = 5_000;

/** Ends the agents and this process: the other nodes took over while this one was frozen or cut off. */
export async function replaced(providers: readonly SandboxProvider[], name: string): Promise<void> {
  const message = "The lease is lost, and other nodes run the sessions; this one ends its agents and exits";
  stderrLogger({ level: "error", message, database: name });
  await Promise.race([endProcesses(providers).catch(() => {}), sleep(CLOSING_MS)]);
  process.exit(EXIT.failed);
}

/** Resolves at the first signal; the second one exits at once. */
export function untilStopped(): Promise<void> {
  return new Promise((resolve) => {
    let count = 0;
    onInterrupt((signal) => {
      count += 1;
      if (count > 1) process.exit(signal === "SIGINT" ? 130 : 143);
      resolve();
    });
  });
}

/** Exits after the time limit. The next start recovers the sessions, as after a kill. */
export function exitAfter(ms: number): void {
  const exit = (): void => {
    stderrLogger({
      level: "warn",
      message: "The server could not close everything in time and exits now",
      ms,
    });
    process.exit(EXIT.ok);
  };
  setTimeout(exit, ms).unref();
}
