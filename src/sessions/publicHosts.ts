import { isIP, type Socket } from "node:net";
import { toAddressKind } from "../sandbox/bridge/host/address.ts";
import { createResolve, dial } from "../sandbox/bridge/host/dial.ts";
import { parseHostPattern, parseHostPatterns } from "../sandbox/bridge/hostPattern.ts";
import { isLoopbackHost, parseHostPort } from "../sandbox/bridge/hostPort.ts";

const EVERY_PUBLIC_HOST = [parseHostPattern("*")];

/**
 * Connects to a host of the internet and to nothing of this machine or its network. The name is resolved once, and the
 * connection goes to one of the addresses that were checked.
 */
export function dialPublic(host: string, port: number, resolve = createResolve()): Promise<Socket> {
  return dial(host, port, { patterns: EVERY_PUBLIC_HOST, resolve });
}

/** Whether a host is this machine or its network by its letters alone; other names are checked when they are dialled. */
export function isPrivateHost(text: string): boolean {
  const host = parseHostPort(text)?.host;
  if (host === undefined) return false;
  return isIP(host) === 0 ? isLoopbackHost(host) : toAddressKind(host) !== "public";
}

/** The entries of an allow list that are this machine or its network by their letters. */
export function findPrivateHost(allow: readonly string[]): string | undefined {
  return allow.find((text) =>
    parseHostPatterns([text]).some(({ host, wildcard }) => !wildcard && isPrivateHost(toPlain(host))),
  );
}

function toPlain(host: string): string {
  return isIP(host) === 6 ? `[${host}]` : host;
}
