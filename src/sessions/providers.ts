import { SluiceError } from "../contract/index.ts";
import { chooseProvider } from "../sandbox/choose.ts";
import type { SandboxProvider } from "../sandbox/port.ts";
import type { Logger } from "./deps.ts";

/**
 * The sandbox of sessions that name none: the one that the engine was told, else the first that isolates and works.
 * Where none does it fails, and says what helps.
 */
export function decideDefault(
  providers: readonly SandboxProvider[],
  { named, logger }: { named: string | undefined; logger: Logger },
): () => Promise<string> {
  if (named !== undefined) return async () => findProvider(named, providers).id;
  let decided: Promise<string> | undefined;
  return () => {
    const deciding = decided ?? choose(providers, logger);
    decided = deciding;
    // The machine may be mended while we run.
    deciding.catch(() => (decided = undefined));
    return deciding;
  };
}

async function choose(providers: readonly SandboxProvider[], logger: Logger): Promise<string> {
  const { provider, missed } = await chooseProvider(providers);
  for (const { id, reason } of missed)
    logger({ level: "warn", message: `no ${id} sandbox: ${reason}`, provider: provider.id });
  return provider.id;
}

export function findProvider(id: string, providers: readonly SandboxProvider[]): SandboxProvider {
  const provider = providers.find((provider) => provider.id === id);
  if (provider) return provider;
  const known = providers.map((provider) => provider.id).join(", ");
  throw new SluiceError("unsupported_sandbox", `there is no sandbox provider "${id}"; use one of: ${known}`);
}
