import { isIP } from "node:net";
import type { SessionSpec } from "../contract/index.ts";
import { toAddressKind } from "../sandbox/bridge/host/address.ts";
import { parseHostPattern, parseHostPatterns, parsePrivateNames } from "../sandbox/bridge/hostPattern.ts";
import { isLoopbackHost, parseHostPort } from "../sandbox/bridge/hostPort.ts";

/** Hosts that no sandbox can be opened to are refused when they are given, and not when the first turn needs them. */
export function refuseUnknownHosts({ network }: Pick<SessionSpec, "network">): void {
  if (typeof network !== "object") return;
  parseHostPatterns(network.allow);
  parsePrivateNames(network.private);
}

/**
 * The private places that a spec names: this machine, addresses of private networks, names that may lie in them, and the
 * machine's whole network. Every other name is refused by the sandbox where it leads to such a place.
 */
export function toPrivatePlaces(spec: Pick<SessionSpec, "network" | "mcp" | "env">): string[] {
  const { network, mcp = {}, env = {} } = spec;
  const lists = typeof network === "object" ? network : { allow: [] };
  const urls = [
    ...Object.values(mcp).flatMap((server) => ("url" in server ? [server.url] : [])),
    // The address of a model is a variable of its agent, each agent's has another name.
    ...Object.values(env),
  ];
  return [
    ...(network === "full" ? ["network: full"] : []),
    ...lists.allow.filter((text) => isPrivatePlace(parseHostPattern(text).host)),
    ...(lists.private ?? []),
    ...urls.filter((url) => isPrivatePlace(hostOf(url))),
  ];
}

function isPrivatePlace(host: string): boolean {
  return isLoopbackHost(host) || (isIP(host) !== 0 && toAddressKind(host) !== "public");
}

function hostOf(text: string): string {
  if (!/^[a-z][a-z0-9+.-]*:/i.test(text) || !URL.canParse(text)) return "";
  return parseHostPort(new URL(text).hostname)?.host ?? "";
}
