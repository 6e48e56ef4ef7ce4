import type { EventDraft, Lending, LentSecret, Network } from "../../contract/index.ts";
import { permits } from "../../sandbox/index.ts";
import type { Sandbox } from "../../sandbox/port.ts";

/** Secrets that a session's programs use by placeholders, without having them. */
export interface Loan {
  readonly lending: Lending;
  readonly secrets: readonly NamedSecret[];
}

export interface NamedSecret extends LentSecret {
  /** The variable that holds the placeholder. */
  readonly name: string;
  /** The secret's identity, for the error event. */
  readonly details: Readonly<Record<string, string>>;
}

/** The variables with placeholders; none for a sandbox that does not replace placeholders. */
export function toPlaceholders(loan: Loan | undefined, { lends }: Sandbox): Record<string, string> {
  if (lends !== true) return {};
  return Object.fromEntries((loan?.secrets ?? []).map(({ name, placeholder }) => [name, placeholder]));
}

/** The lent values, for redaction. */
export function toLentValues(loan: Loan | undefined): [string, string][] {
  return (loan?.secrets ?? []).map(({ name, value }) => [name, value]);
}

/** An error for each secret that cannot be used in this sandbox and network. */
export function tellUnusable(
  loan: Loan | undefined,
  { lends, provider }: Sandbox,
  { network, hosts }: { network: Network | undefined; hosts: readonly string[] },
): EventDraft[] {
  const isMode = network === "full" || network === "none" || network === "loopback";
  const place = isMode ? `with the network "${network}"` : `in a ${provider} sandbox`;
  const reach = [...(isMode || network === undefined ? [] : network.allow), ...hosts];
  return (loan?.secrets ?? []).flatMap((secret) => {
    if (lends !== true) {
      const why = `${place} nothing could put the secret in the place of its placeholder, so the variable ${secret.name} is not set; use an isolated sandbox and a network with allowed hosts`;
      return [toError(secret, why)];
    }
    const closed = (secret.hosts ?? []).filter((host) => !permits(reach, host));
    if (closed.length === 0) return [];
    const why = `the session's network does not allow ${closed.join(", ")}, so the secret ${secret.name} cannot go there; allow it in the environment's networking`;
    return [toError(secret, why)];
  });
}

function toError({ details }: NamedSecret, message: string): EventDraft {
  return { type: "error", source: "daemon", data: { code: "credential_host_unreachable", message, details } };
}
