import type { EngineAddress } from "../address.ts";
import { inspectExec } from "./api.ts";

/** The exit code of a command that has ended; undefined where the engine no longer knows. */
export async function readExitCode(address: EngineAddress, id: string): Promise<number | undefined> {
  for (let tries = 0; tries < 200; tries++) {
    const found = await inspectExec(address, id).catch(() => undefined);
    if (found === undefined) return undefined;
    if (!found.Running) return found.ExitCode ?? undefined;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return undefined;
}
