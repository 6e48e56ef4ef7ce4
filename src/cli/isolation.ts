import { join } from "node:path";
import { chooseProvider, defaultProviders } from "../sandbox/choose.ts";

/** Fails where sessions that name no sandbox could not start: a server that can start nothing helps nobody. */
export async function demandIsolation(named: string | undefined, dataDir: string): Promise<void> {
  const providers = defaultProviders({ root: join(dataDir, "sandboxes"), hide: [dataDir] });
  if (named === undefined) return void (await chooseProvider(providers));
  await providers.find(({ id }) => id === named)?.check?.({});
}
