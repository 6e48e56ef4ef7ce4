import { SluiceError, type SessionSpec } from "../contract/index.ts";
import type { Harness } from "../harness/port.ts";

/** A mode or a variant that the agent does not have is refused when the session is made, not when its first turn fails. */
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
