import { isIP, type Socket } from "node:net";
import type { SessionSpec } from "../contract/index.ts";
import { parseHostPattern, parseHostPatterns, parsePrivateNames } from "../sandbox/egress/allow-list.ts";
import { isLoopbackHost, parseHostPort } from "../sandbox/egress/connection.ts";
import { createResolve, dial, toAddressKind } from "../sandbox/egress/host/dial.ts";

/** Refuses hosts that no sandbox can reach. */
export function refuseUnknownHosts({ network }: Pick<SessionSpec, "network">): void {
  if (typeof network !== "object") return;
  parseHostPatterns(network.allow);
  parsePrivateNames(network.private);
}

/**
 * The private hosts of a spec: this machine, addresses of private networks, names that may resolve into them, and the
 * machine's whole network. The sandbox refuses every other name that resolves to such a host.
 */
export function listPrivateHosts(spec: Pick<SessionSpec, "network" | "mcp" | "env">): string[] {
  const { network, mcp = {}, env = {} } = spec;
  const lists = typeof network === "object" ? network : { allow: [] };
  const urls = [
    ...Object.values(mcp).flatMap((server) => ("url" in server ? [server.url] : [])),
    // The address of a model is a variable, with another name for each agent.
    ...Object.values(env),
  ];
  return [
    ...(network === "full" ? ["network: full"] : []),
    ...lists.allow.filter((text) => isPrivateAddress(parseHostPattern(text).host)),
    ...(lists.private ?? []),
    ...urls.filter((url) => isPrivateAddress(hostOf(url))),
  ];
}

function isPrivateAddress(host: string): boolean {
  return isLoopbackHost(host) || (isIP(host) !== 0 && toAddressKind(host) !== "public");
}

function hostOf(text: string): string {
  if (!/^[a-z][a-z0-9+.-]*:/i.test(text) || !URL.canParse(text)) return "";
  return parseHostPort(new URL(text).hostname)?.host ?? "";
}

const EVERY_PUBLIC_HOST = [parseHostPattern("*")];

/**
 * Connects to a public host, and never to this machine or its network. The name is resolved once, and the connection
 * uses a checked address.
 */
export function dialPublic(host: string, port: number, resolve = createResolve()): Promise<Socket> {
  return dial(host, port, { patterns: EVERY_PUBLIC_HOST, resolve });
}

/** Whether the spelling of a host shows that it is this machine or its network. Other names are checked when they are dialled. */
export function isPrivateHost(text: string): boolean {
  const host = parseHostPort(text)?.host;
  if (host === undefined) return false;
  return isIP(host) === 0 ? isLoopbackHost(host) : toAddressKind(host) !== "public";
}

/** The first entry of an allow list whose spelling shows that it is this machine or its network. */
export function findPrivateHost(allow: readonly string[]): string | undefined {
  return allow.find((text) =>
    parseHostPatterns([text]).some(({ host, wildcard }) => !wildcard && isPrivateHost(toUrlHost(host))),
  );
}

function toUrlHost(host: string): string {
  return isIP(host) === 6 ? `[${host}]` : host;
}
