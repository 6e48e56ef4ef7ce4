import { SluiceError } from "../contract/index.ts";
import { createBwrapProvider, type BwrapProviderOptions } from "./bwrap/provider.ts";
import { createDaytonaProvider } from "./daytona/provider.ts";
import { createDockerProvider } from "./docker/provider.ts";
import { findRemoteEngine } from "./docker/remote/address.ts";
import { RemoteDockerProvider } from "./docker/remote/provider.ts";
import { createE2bProvider } from "./e2b/provider.ts";
import { createKubernetesProvider } from "./kubernetes/provider.ts";
import { createLocalProvider } from "./local/provider.ts";
import type { HostProvider, SandboxProvider } from "./port.ts";
import { createSshProvider } from "./ssh/provider.ts";
import { createVercelProvider } from "./vercel/provider.ts";

/** Every provider, in the order of choice: bwrap, which needs no set-up, comes first. */
export function defaultProviders(options: BwrapProviderOptions): SandboxProvider[] {
  const records = `${options.root}-elsewhere`;
  const elsewhere = [
    createSshProvider,
    createKubernetesProvider,
    createE2bProvider,
    createDaytonaProvider,
    createVercelProvider,
  ];
  const host = findRemoteEngine(process.env);
  const here = hostProviders(options, records).map((provider) =>
    provider.id === "docker" && host !== undefined
      ? new RemoteDockerProvider({ host, records, root: options.root })
      : provider,
  );
  return [...here, ...elsewhere.map((create) => create({ records }))];
}

/** The providers whose sandboxes are on this machine. */
export function hostProviders(options: BwrapProviderOptions, records?: string): HostProvider[] {
  const { root, hide = [] } = options;
  const docker = createDockerProvider({ root, hide, ...(records === undefined ? {} : { records }) });
  return [createBwrapProvider(options), docker, createLocalProvider({ root })];
}

/** A provider that does not work here. */
interface MissedProvider {
  readonly id: string;
  readonly reason: string;
  readonly remedy?: string | undefined;
}

export interface ChosenProvider {
  readonly provider: SandboxProvider;
  /** The better providers that do not work here, with their remedies. */
  readonly missed: readonly MissedProvider[];
}

/** The first provider that isolates and works here. One without isolation has to be named explicitly. */
export async function chooseProvider(providers: readonly SandboxProvider[]): Promise<ChosenProvider> {
  const missed: MissedProvider[] = [];
  for (const provider of providers) {
    // Another machine has to be named, too.
    if (provider.isolated === false || provider.hasPrograms) continue;
    const { available, reason = "it does not say why", remedy } = await provider.detect();
    if (available) return { provider, missed };
    missed.push({ id: provider.id, reason, remedy });
  }
  throw noIsolation(missed, providers);
}

function noIsolation(missed: readonly MissedProvider[], providers: readonly SandboxProvider[]): SluiceError {
  const remedy = missed.find((provider) => provider.remedy !== undefined)?.remedy;
  const open = providers.find(({ isolated }) => isolated === false)?.id;
  const detail = [
    "No isolated sandbox works here, so no agent is started.",
    ...missed.map(({ id, reason }) => `${id}: ${reason}.`),
    remedy && `Run: ${remedy}`,
    open &&
      `— or name the sandbox ${open} (--sandbox ${open}), where an agent can do whatever this user can do.`,
  ];
  return new SluiceError("unsupported_sandbox", detail.filter(Boolean).join(" "), { missed });
}
