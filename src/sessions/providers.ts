import { SluiceError } from "../contract/index.ts";
import { chooseProvider } from "../sandbox/choose.ts";
import type { SandboxProvider } from "../sandbox/port.ts";
import type { Logger } from "./deps.ts";

/** The most isolated provider that works here, and a word on those that would have been better. */
export async function chooseDefault(
  providers: readonly SandboxProvider[],
  logger: Logger | undefined,
): Promise<string> {
  const { provider, missed } = await chooseProvider(providers);
  for (const { id, reason } of missed)
    logger?.({ level: "warn", message: `no ${id} sandbox: ${reason}`, using: provider.id });
  return provider.id;
}

export function findProvider(id: string, providers: readonly SandboxProvider[]): SandboxProvider {
  const provider = providers.find((provider) => provider.id === id);
  if (provider) return provider;
  const known = providers.map((provider) => provider.id).join(", ");
  throw new SluiceError("unsupported_sandbox", `there is no sandbox provider "${id}"; use one of: ${known}`);
}
