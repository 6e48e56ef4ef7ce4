import { lookup } from "node:dns/promises";
import { BlockList, connect, isIP, type Socket } from "node:net";
import { networkInterfaces } from "node:os";
import { judge, type HostRules } from "../allow-list.ts";
import { isLoopbackHost, toGroups } from "../connection.ts";
import { inPrivateNetwork, neverReachable, notAllowed, unreachable } from "./refusal.ts";

type Resolve = (host: string) => Promise<readonly string[]>;

export interface DialOptions extends HostRules {
  readonly resolve: Resolve;
}

const CONNECT_MS = 20_000;

/** Connects to an allowed host, and only by an address that was checked. */
export async function dial(host: string, port: number, options: DialOptions): Promise<Socket> {
  const verdict = judge(options, host, port);
  if (verdict === "refused") throw notAllowed(host, port);
  const addresses = await resolveAll(host, port, options.resolve);
  const checked = addresses.filter((address) => isOpen(toAddressKind(address), verdict === "private", host));
  if (checked.length === 0) throw toRefusal(host, port, addresses);
  return connectTo(host, port, checked);
}

/** Looks a name up in a table, as in a hosts file, and then by this machine's resolver. */
export function createResolve(names: Readonly<Record<string, readonly string[]>> = {}): Resolve {
  const table = new Map(Object.entries(names));
  return async (host) => {
    const given = table.get(host);
    if (given !== undefined) return given;
    return (await lookup(host, { all: true })).map(({ address }) => address);
  };
}

async function resolveAll(host: string, port: number, resolve: Resolve): Promise<readonly string[]> {
  if (isIP(host) !== 0) return [host];
  if (isLoopbackHost(host)) return ["127.0.0.1", "::1"];
  try {
    return await within(CONNECT_MS, resolve(host));
  } catch (error) {
    throw unreachable(host, port, `its name was not resolved (${toCode(error)}).`);
  }
}

function isOpen(kind: AddressKind, isPrivate: boolean, host: string): boolean {
  if (kind === "public") return true;
  if (kind === "unusable" || !isPrivate) return false;
  return !isOnlyByAddress(kind) || isIP(host) !== 0;
}

/** Whether only an address may be allowed, and no name: 169.254.169.254 and similar addresses hand out credentials. */
function isOnlyByAddress(kind: AddressKind): boolean {
  return kind === "link-local" || kind === "metadata";
}

function toRefusal(host: string, port: number, addresses: readonly string[]): Error {
  const kinds = addresses.map(toAddressKind);
  const found = addresses.map((address, at) => `${address}, ${kinds[at]}`).join("; ");
  if (addresses.length === 0) return unreachable(host, port, "its name has no address.");
  if (kinds.every((kind) => kind === "unusable" || (isOnlyByAddress(kind) && isIP(host) === 0))) {
    return neverReachable(host, port, found);
  }
  return inPrivateNetwork(host, port, found);
}

function connectTo(host: string, port: number, checked: readonly string[]): Promise<Socket> {
  const addresses = checked.map((address) => ({ address, family: isIP(address) }));
  return new Promise((resolve, reject) => {
    const socket = connect({
      host: "checked.invalid",
      port,
      allowHalfOpen: true,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: 60_000,
      autoSelectFamily: true,
      autoSelectFamilyAttemptTimeout: 2_000,
      // The name is not resolved again, because a second answer could differ.
      lookup: (_name, _options, done) => done(null, addresses),
    });
    const fail = (why: string): void => {
      socket.destroy();
      reject(unreachable(host, port, why));
    };
    socket.setTimeout(CONNECT_MS, () => fail(`no answer within ${CONNECT_MS / 1_000} seconds.`));
    const onError = (error: Error): void => fail(`${toCode(error)}.`);
    socket.once("error", onError);
    socket.once("connect", () => {
      socket.setTimeout(0);
      socket.removeAllListeners("timeout");
      socket.off("error", onError);
      resolve(socket);
    });
  });
}

function toCode(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return code ?? message;
}

async function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error("no answer in time")), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** The kinds of addresses that a sandbox must not reach by default, and `public`. */
type AddressKind = "public" | "private" | "loopback" | "own" | "link-local" | "metadata" | "unusable";

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
