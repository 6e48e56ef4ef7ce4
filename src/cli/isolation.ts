import { chooseProvider } from "../sandbox/choose.ts";
import type { SandboxProvider } from "../sandbox/port.ts";

/** Fails where sessions that name no sandbox could not start: a server that can start nothing helps nobody. */
export async function demandIsolation(
  providers: readonly SandboxProvider[],
  named: string | undefined,
): Promise<void> {
  if (named === undefined) return void (await chooseProvider(providers));
  await providers.find(({ id }) => id === named)?.check?.({});
}
