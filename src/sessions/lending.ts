import type { EventDraft, Lending, LentSecret, Network } from "../contract/index.ts";
import { permits } from "../sandbox/index.ts";
import type { Sandbox } from "../sandbox/port.ts";

/** Secrets that a session's programs use without having them. */
export interface Loan {
  readonly lending: Lending;
  readonly secrets: readonly NamedSecret[];
}

export interface NamedSecret extends LentSecret {
  /** The variable that holds the placeholder. */
  readonly name: string;
  /** Whose it is, for whoever reads that it cannot be used. */
  readonly details: Readonly<Record<string, string>>;
}

/** The variables that hold placeholders; none where nobody would put the secrets in their place. */
export function toPlaceholders(loan: Loan | undefined, { lends }: Sandbox): Record<string, string> {
  if (lends !== true) return {};
  return Object.fromEntries((loan?.secrets ?? []).map(({ name, placeholder }) => [name, placeholder]));
}

/** So that no event can hold one. */
export function toLentValues(loan: Loan | undefined): [string, string][] {
  return (loan?.secrets ?? []).map(({ name, value }) => [name, value]);
}

/** What of it cannot be used here, in words: once, when a session's first process starts. */
export function tellUnusable(
  loan: Loan | undefined,
  { lends, provider }: Sandbox,
  { network, hosts }: { network: Network | undefined; hosts: readonly string[] },
): EventDraft[] {
  const isWord = network === "full" || network === "none" || network === "loopback";
  const place = isWord ? `with the network "${network}"` : `in a ${provider} sandbox`;
  const reach = [...(isWord || network === undefined ? [] : network.allow), ...hosts];
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
