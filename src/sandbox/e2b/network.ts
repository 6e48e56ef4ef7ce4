import type { SandboxNetworkOpts } from "e2b";
import { SluiceError } from "../../contract/index.ts";
import type { NetworkPolicy } from "../port.ts";

const ALL = "0.0.0.0/0";

/** E2B allows hosts by name, on the ports 80 and 443 of TCP. Whatever it cannot keep is refused by name. */
export function refuseNetwork(network: NetworkPolicy | undefined): void {
  if (network?.mode !== "allow" || network.hosts.includes("*")) return;
  const own = network.private ?? [];
  if (own.length > 0) throw cannot(`allow names of private addresses (${own.join(", ")})`, network);
  const bad = network.hosts.filter((host) => !isDomain(host));
  if (bad.length > 0)
    throw cannot(
      `allow ${bad.join(", ")}: it knows hosts and *.domains, without a port and no addresses`,
      network,
    );
}

export function toE2bNetwork(network: NetworkPolicy | undefined): SandboxNetworkOpts {
  if (network === undefined || network.mode === "full") return {};
  if (network.mode !== "allow") return { denyOut: [ALL] };
  if (network.hosts.includes("*")) return {};
  return { denyOut: [ALL], ...(network.hosts.length === 0 ? {} : { allowOut: [...network.hosts] }) };
}

function isDomain(host: string): boolean {
  const name = host.startsWith("*.") ? host.slice(2) : host;
  return (
    /^(?:[a-z0-9_](?:[a-z0-9_-]*[a-z0-9])?\.)+[a-z][a-z0-9-]*$/i.test(name) && !/\.localhost$/i.test(name)
  );
}

function cannot(what: string, network: NetworkPolicy): SluiceError {
  const detail = `e2b cannot ${what}. Ask for the full network, none, or a list of public hosts; or use bwrap or docker.`;
  return new SluiceError("capability_missing", detail, { network });
}
