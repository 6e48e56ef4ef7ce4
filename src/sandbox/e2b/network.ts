import type { SandboxNetworkOpts } from "e2b";
import { toOnlyHosts } from "../cloud/network.ts";
import type { NetworkPolicy } from "../port.ts";

const ALL = "0.0.0.0/0";

/** E2B allows hosts by name, on the ports 80 and 443 of TCP. */
export function toE2bNetwork(network: NetworkPolicy | undefined): SandboxNetworkOpts {
  const hosts = toOnlyHosts(network);
  if (hosts === undefined) return {};
  return { denyOut: [ALL], ...(hosts.length === 0 ? {} : { allowOut: [...hosts] }) };
}
