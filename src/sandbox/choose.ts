import { createBwrapProvider, type BwrapProviderOptions } from "./bwrap/provider.ts";
import { createDockerProvider } from "./docker/provider.ts";
import { createLocalProvider } from "./local/provider.ts";
import type { SandboxProvider } from "./port.ts";

/** Every provider, in the order in which one is chosen: isolated without any set-up first, and no container unasked. */
export function defaultProviders(options: BwrapProviderOptions): SandboxProvider[] {
  const { root, hide = [] } = options;
  return [createBwrapProvider(options), createLocalProvider({ root }), createDockerProvider({ root, hide })];
}

export interface ChosenProvider {
  readonly provider: SandboxProvider;
  /** The better ones that do not work here, and what to do about it. */
  readonly missed: readonly { readonly id: string; readonly reason: string }[];
}

/** The first that works here. */
export async function chooseProvider(providers: readonly SandboxProvider[]): Promise<ChosenProvider> {
  const missed: { id: string; reason: string }[] = [];
  for (const provider of providers) {
    const { available, reason } = await provider.detect();
    if (available) return { provider, missed };
    missed.push({ id: provider.id, reason: reason ?? "it does not say why" });
  }
  throw new Error(
    `No sandbox provider works here. ${missed.map(({ id, reason }) => `${id}: ${reason}`).join(". ")}.`,
  );
}
