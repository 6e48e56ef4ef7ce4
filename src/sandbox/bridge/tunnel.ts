import { isLoopbackHost, toAuthority } from "./hostPort.ts";
import type { HostPattern } from "./hostPattern.ts";

/** A port inside that leads to the same port of this machine. */
export interface Tunnel {
  /** Where to listen inside. */
  readonly address: string;
  readonly port: number;
  /** Whom to ask the host side for. */
  readonly target: string;
}

export function toTunnels(patterns: readonly HostPattern[]): Tunnel[] {
  const tunnels = new Map<string, Tunnel>();
  for (const { host, port } of patterns) {
    if (port === undefined || !isLoopbackHost(host)) continue;
    const target = toAuthority(host, port);
    for (const address of toAddresses(host)) {
      const key = toAuthority(address, port);
      if (!tunnels.has(key) || key === target) tunnels.set(key, { address, port, target });
    }
  }
  return [...tunnels.values()];
}

function toAddresses(host: string): string[] {
  return host.endsWith("localhost") ? ["127.0.0.1", "::1"] : [host];
}
