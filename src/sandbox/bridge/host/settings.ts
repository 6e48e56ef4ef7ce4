import type { HostPattern } from "../hostPattern.ts";

/** What the host program is told, as JSON in its environment. */
export interface HostSettings {
  readonly patterns: readonly HostPattern[];
  /** As in a hosts file: asked before the resolver, checked like any other answer. */
  readonly names?: Readonly<Record<string, readonly string[]>>;
  /** How long it stays when nobody of the sandbox is connected. */
  readonly graceMs: number;
}

export const SETTINGS_VARIABLE = "SLUICE_BRIDGE";
