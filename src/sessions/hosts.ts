import type { SessionSpec } from "../contract/index.ts";
import { parseHostPatterns } from "../sandbox/bridge/hostPattern.ts";

/** Hosts that no sandbox can be opened to are refused when they are given, and not when the first turn needs them. */
export function refuseUnknownHosts({ network }: Pick<SessionSpec, "network">): void {
  if (typeof network === "object") parseHostPatterns(network.allow);
}
