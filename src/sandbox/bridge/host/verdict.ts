import { isIP } from "node:net";
import type { HostPattern } from "../hostPattern.ts";

/** `named`: this very host and port stand in the list, so that it may also lie in the host's own network. */
export type Verdict = "refused" | "allowed" | "named";

export function judge(patterns: readonly HostPattern[], host: string, port: number): Verdict {
  let verdict: Verdict = "refused";
  for (const pattern of patterns) {
    if (pattern.port !== undefined && pattern.port !== port) continue;
    if (!covers(pattern, host)) continue;
    if (pattern.port !== undefined && !pattern.wildcard) return "named";
    verdict = "allowed";
  }
  return verdict;
}

function covers(pattern: HostPattern, host: string): boolean {
  if (!pattern.wildcard) return pattern.host === host;
  // Every host: where it really lies is looked at when its address is known.
  if (pattern.host === "") return true;
  return isIP(host) === 0 && host.endsWith(`.${pattern.host}`);
}
