import { BlockList, isIP } from "node:net";
import { networkInterfaces } from "node:os";

/** The kinds of addresses that a sandbox must not reach by default, and `public`. */
export type AddressKind = "public" | "private" | "loopback" | "own" | "link-local" | "metadata" | "unusable";

export function toAddressKind(address: string): AddressKind {
  const family = isIP(address);
  // No name may resolve to an address with a zone, such as fe80::1%eth0.
  if (family === 0 || address.includes("%")) return "unusable";
  const embedded = family === 6 ? toEmbeddedAddress(address) : undefined;
  if (embedded !== undefined) return toAddressKind(embedded);
  const type = family === 6 ? "ipv6" : "ipv4";
  for (const [kind, ranges] of RANGES) if (ranges.check(address, type)) return kind;
  return isOwn(address) ? "own" : "public";
}

const RANGES: readonly (readonly [AddressKind, BlockList])[] = [
  [
    "metadata",
    toList(
      "169.254.169.254/32",
      "169.254.170.2/32",
      "168.63.129.16/32",
      "100.100.100.200/32",
      "192.0.0.192/32",
      "fd00:ec2::/32",
      "fd20:ce::/32",
    ),
  ],
  ["loopback", toList("127.0.0.0/8", "::1/128")],
  ["link-local", toList("169.254.0.0/16", "fe80::/10", "fec0::/10")],
  [
    "private",
    toList(
      "10.0.0.0/8",
      "172.16.0.0/12",
      "192.168.0.0/16",
      "100.64.0.0/10",
      "198.18.0.0/15",
      "192.0.0.0/24",
      "fc00::/7",
      // NAT64 within one network, which itself chooses the position of the IPv4 part.
      "64:ff9b:1::/48",
      // Segment routing within one network.
      "5f00::/16",
    ),
  ],
  ["unusable", toList("0.0.0.0/8", "224.0.0.0/3", "::/96", "ff00::/8", "2001::/32")],
];

/** The IPv4 address in a mapped, translated (SIIT, NAT64) or 6to4 address. */
function toEmbeddedAddress(address: string): string | undefined {
  const groups = toGroups(address);
  const text = groups.join(":");
  if (EMBEDDING.some((prefix) => text.startsWith(prefix))) return toIPv4(groups.slice(6));
  if (text.startsWith("2002:")) return toIPv4(groups.slice(1, 3));
  return undefined;
}

const EMBEDDING = ["0:0:0:0:0:ffff:", "0:0:0:0:ffff:0:", "64:ff9b:0:0:0:0:"];

/** The eight groups of an IPv6 address, in hex. */
export function toGroups(address: string): string[] {
  // The URL standard has one spelling for each address, without an IPv4 part.
  const text = new URL(`http://[${address}]/`).hostname.slice(1, -1);
  const [before = "", after] = text.split("::");
  const head = before === "" ? [] : before.split(":");
  if (after === undefined) return head;
  const tail = after === "" ? [] : after.split(":");
  return [...head, ...Array.from({ length: 8 - head.length - tail.length }, () => "0"), ...tail];
}

function toIPv4(groups: readonly string[]): string {
  const bytes = groups.flatMap((group) => [
    Number.parseInt(group, 16) >> 8,
    Number.parseInt(group, 16) & 255,
  ]);
  return bytes.join(".");
}

function isOwn(address: string): boolean {
  const mine = new BlockList();
  // Read each time: interfaces come and go while a sandbox exists.
  for (const entry of Object.values(networkInterfaces()).flatMap((entries) => entries ?? [])) {
    mine.addAddress(entry.address, entry.family === "IPv6" ? "ipv6" : "ipv4");
  }
  return mine.check(address, isIP(address) === 6 ? "ipv6" : "ipv4");
}

function toList(...ranges: readonly string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [net = "", bits] = range.split("/");
    list.addSubnet(net, Number(bits), net.includes(":") ? "ipv6" : "ipv4");
  }
  return list;
}
