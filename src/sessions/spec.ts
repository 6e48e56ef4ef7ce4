import { defined } from "../contract/own-keys.ts";
import { SluiceError, type SessionSpec } from "../contract/index.ts";
import type { Harness } from "../harness/port.ts";
import { chooseProvider } from "../sandbox/choose.ts";
import type { SandboxProvider } from "../sandbox/port.ts";
import { refuseUnreachableTools } from "./actions/tool-server.ts";
import type { Logger } from "./deps.ts";
import { refuseUnknownHosts } from "./private-hosts.ts";
import { toPolicy } from "./sandbox/session-sandbox.ts";

/** Refuses a spec that this agent or sandbox cannot serve. */
export async function refuseSpec(
  spec: SessionSpec,
  harness: Harness,
  provider: SandboxProvider,
): Promise<void> {
  const detected = provider.hasPrograms ? { installed: true } : await harness.detect();
  if (!detected.installed) {
    throw new SluiceError(
      "agent_not_installed",
      `${harness.title} is not installed. ${detected.hint ?? ""}`.trim(),
    );
  }
  refuseUnknownChoices(harness, spec);
  refuseUnreachableTools(spec);
  refuseUnknownHosts(spec);
  harness.check?.(spec);
  const { directory, network, image } = spec;
  const policy = network === undefined ? undefined : toPolicy(network);
  await provider.check?.({ directory, ...defined({ network: policy, image }) });
}

/** Refuses a mode or variant that the agent of a new session does not have. */
export function refuseUnknownChoices({ title, choices }: Harness, { agentMode, variant }: SessionSpec): void {
  if (!choices) return;
  refuse(agentMode, choices.modes, `${title} has no mode "${agentMode}"`);
  refuse(variant, choices.variants, `${title} has no variant "${variant}"`);
}

function refuse(chosen: string | undefined, known: readonly string[] | undefined, problem: string): void {
  if (chosen === undefined || known === undefined || known.includes(chosen)) return;
  const hint = known.length === 0 ? "leave it out" : `choose one of ${known.join(", ")}`;
  throw new SluiceError("mode_not_supported", `${problem}; ${hint}.`, { known });
}

/**
 * Decides the sandbox of sessions that name none: the engine's own choice, else the first provider that isolates and
 * works. The returned function fails with advice where there is none.
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
    // The machine may be repaired while the engine runs.
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
  const provider = providers.find((provider) => provider.id === id && !provider.named);
  if (provider) return provider;
  for (const many of providers) {
    const named = many.named?.(id);
    if (named) return named;
  }
  const known = providers.map(({ id, named }) => (named ? `${id}://user@host` : id)).join(", ");
  throw new SluiceError("unsupported_sandbox", `there is no sandbox provider "${id}"; use one of: ${known}`);
}
