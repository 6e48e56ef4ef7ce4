import { SluiceError } from "../../contract/index.ts";
import type { NetworkPolicy } from "../port.ts";

/** Vendors allow hosts by name, without a port. Whatever a vendor cannot keep is refused by name. */
export function refuseNetwork(vendor: string, network: NetworkPolicy | undefined): void {
  if (network?.mode !== "allow" || network.hosts.includes("*")) return;
  const own = network.private ?? [];
  if (own.length > 0) throw cannot(vendor, `allow names of private addresses (${own.join(", ")})`, network);
  const bad = network.hosts.filter((host) => !isDomain(host));
  if (bad.length === 0) return;
  const what = `allow ${bad.join(", ")}: it knows hosts and *.domains, without a port and no addresses`;
  throw cannot(vendor, what, network);
}

/** The only hosts that may be reached; undefined where there is no limit. */
export function toOnlyHosts(network: NetworkPolicy | undefined): readonly string[] | undefined {
  if (network === undefined || network.mode === "full") return undefined;
  if (network.mode !== "allow") return [];
  return network.hosts.includes("*") ? undefined : network.hosts;
}

function isDomain(host: string): boolean {
  const name = host.startsWith("*.") ? host.slice(2) : host;
  return (
    /^(?:[a-z0-9_](?:[a-z0-9_-]*[a-z0-9])?\.)+[a-z][a-z0-9-]*$/i.test(name) && !/\.localhost$/i.test(name)
  );
}

function cannot(vendor: string, what: string, network: NetworkPolicy): SluiceError {
  const detail = `${vendor} cannot ${what}. Ask for the full network, none, or a list of public hosts; or use bwrap or docker.`;
  return new SluiceError("capability_missing", detail, { network });
}
