import { createBwrapProvider, type BwrapProviderOptions } from "./bwrap/provider.ts";
import { createLocalProvider } from "./local/provider.ts";
import type { SandboxProvider } from "./port.ts";

/** The providers that need no set-up, the most isolated first. */
export function defaultProviders(options: BwrapProviderOptions): SandboxProvider[] {
  return [createBwrapProvider(options), createLocalProvider({ root: options.root })];
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
