import { isIP } from "node:net";
import type { HostPattern } from "../hostPattern.ts";
import { isLoopbackHost } from "../hostPort.ts";

/** `private`: the host may also lie in the network of this machine. */
export type Verdict = "refused" | "allowed" | "private";

export interface HostRules {
  readonly patterns: readonly HostPattern[];
  /** Names that may lie in a private network, where `patterns` allow them. */
  readonly privates?: readonly HostPattern[] | undefined;
}

export function judge({ patterns, privates = [] }: HostRules, host: string, port: number): Verdict {
  const isListed = (pattern: HostPattern): boolean =>
    (pattern.port === undefined || pattern.port === port) && covers(pattern, host);
  const listed = patterns.filter(isListed);
  if (listed.length === 0) return "refused";
  // A name says nothing of where it leads; an address and `localhost` do, where they are named with their port.
  const isPlace = isIP(host) !== 0 || isLoopbackHost(host);
  const isNamed = isPlace && listed.some(({ wildcard, port: named }) => !wildcard && named !== undefined);
  return isNamed || (!isPlace && privates.some(isListed)) ? "private" : "allowed";
}

function covers(pattern: HostPattern, host: string): boolean {
  if (!pattern.wildcard) return pattern.host === host;
  // Every host: where it really lies is looked at when its address is known.
  if (pattern.host === "") return true;
  return isIP(host) === 0 && host.endsWith(`.${pattern.host}`);
}
