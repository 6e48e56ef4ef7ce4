import type { Lending } from "../../../contract/launch.ts";
import type { Certified } from "../certificate.ts";
import type { HostPattern } from "../hostPattern.ts";

/** What the host program is told, as JSON in its environment. It holds no secret of the session's, only the right to ask for them. */
export interface HostSettings {
  readonly patterns: readonly HostPattern[];
  /** Names that may lie in a private network. */
  readonly privates?: readonly HostPattern[];
  /** As in a hosts file: asked before the resolver, checked like any other answer. */
  readonly names?: Readonly<Record<string, readonly string[]>>;
  /** How long it stays when nobody of the sandbox is connected. */
  readonly graceMs: number;
  /** Where secrets are lent to the sandbox. */
  readonly lent?: {
    readonly lending: Lending;
    /** Signs for the hosts that they may go to. */
    readonly authority: Certified;
    /** The harness's own hosts. */
    readonly own: readonly HostPattern[];
  };
}

export const SETTINGS_VARIABLE = "SLUICE_BRIDGE";
