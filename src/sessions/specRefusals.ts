import { SluiceError, type SessionSpec } from "../contract/index.ts";
import type { Harness } from "../harness/port.ts";
import type { SandboxProvider } from "../sandbox/port.ts";
import { toPolicy } from "./createSandbox.ts";
import { refuseUnknownChoices } from "./choices.ts";
import { refuseUnknownHosts } from "./hosts.ts";
import { refuseUnreachableTools } from "./toolServer.ts";

/** Why a session cannot be what it is asked to be, said before it is made. */
export async function refuseSpec(
  spec: SessionSpec,
  harness: Harness,
  provider: SandboxProvider,
): Promise<void> {
  const detected = await harness.detect();
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
  await provider.check?.({
    directory,
    ...(network === undefined ? {} : { network: toPolicy(network) }),
    ...(image === undefined ? {} : { image }),
  });
}
