import type { ChildProcess } from "node:child_process";
import { once } from "node:events";

const PATIENCE_MS = 10_000;

/** Ends a process that we have started and answers when it is gone, also when it was gone before. */
export async function endChild(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "exit");
  const timer = setTimeout(() => child.kill("SIGKILL"), PATIENCE_MS);
  child.kill(signal);
  await exit;
  clearTimeout(timer);
}
