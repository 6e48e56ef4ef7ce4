import { BlockList } from "node:net";
import { array, constantFrom, integer, oneof, record, string, tuple } from "fast-check";
import { describe, expect } from "vitest";
import { judge, parseHostPatterns, parsePrivateNames } from "../../src/sandbox/egress/allow-list.ts";
import { parseHostPort } from "../../src/sandbox/egress/connection.ts";
import { dial, toAddressKind } from "../../src/sandbox/egress/host/dial.ts";
import { fuzz } from "./fuzz.ts";

/** An independent oracle of forbidden addresses, from the registries of special addresses and the clouds' own pages. */
const forbidden4 = toBlockList("ipv4", [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["168.63.129.16", 32],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["224.0.0.0", 4],
  ["240.0.0.0", 4],
]);
const forbidden6 = toBlockList("ipv6", [
  ["::", 96],
  ["64:ff9b:1::", 48],
  ["2001::", 32],
  ["5f00::", 16],
  ["fc00::", 7],
  ["fe80::", 10],
  ["fec0::", 10],
  ["ff00::", 8],
]);

function toBlockList(family: "ipv4" | "ipv6", ranges: readonly (readonly [string, number])[]): BlockList {
  const list = new BlockList();
  for (const [net, bits] of ranges) list.addSubnet(net, bits, family);
  return list;
}

const EDGES = [
  "0.0.0.0",
  "1.0.0.0",
  "9.255.255.255",
  "10.0.0.0",
  "10.255.255.255",
  "11.0.0.0",
  "100.63.255.255",
  "100.64.0.0",
  "100.100.100.200",
  "100.127.255.255",
  "100.128.0.0",
  "126.255.255.255",
  "127.0.0.1",
  "128.0.0.0",
  "168.63.129.15",
  "168.63.129.16",
  "168.63.129.17",
  "169.253.255.255",
  "169.254.169.254",
  "169.255.0.0",
  "172.15.255.255",
  "172.16.0.0",
  "172.31.255.255",
  "172.32.0.0",
  "192.0.0.192",
  "192.0.1.0",
  "192.167.255.255",
  "192.168.255.255",
  "192.169.0.0",
  "198.17.255.255",
  "198.18.0.0",
  "198.19.255.255",
  "198.20.0.0",
  "223.255.255.255",
  "224.0.0.0",
  "255.255.255.255",
].map((text) => text.split(".").map(Number));

const bytes4 = oneof(
  constantFrom(...EDGES),
  array(integer({ min: 0, max: 255 }), { minLength: 4, maxLength: 4 }),
);

/** Each way in which the URL standard lets one write the same address. */
const SPELLINGS: Readonly<Record<string, (bytes: readonly number[]) => string>> = {
  dotted: (bytes) => bytes.join("."),
  number: (bytes) => String(toNumber(bytes)),
  hex: (bytes) => `0x${toNumber(bytes).toString(16)}`,
  HEX: (bytes) => `0X${toNumber(bytes).toString(16).toUpperCase()}`,
  octal: (bytes) => `0${toNumber(bytes).toString(8)}`,
  "octal parts": (bytes) => bytes.map((byte) => `0${byte.toString(8)}`).join("."),
  "hex parts": (bytes) => bytes.map((byte) => `0x${byte.toString(16)}`).join("."),
  "two parts": ([first = 0, ...rest]) => `${first}.${toNumber([0, ...rest])}`,
  "three parts": ([first = 0, second = 0, ...rest]) => `${first}.${second}.${toNumber([0, 0, ...rest])}`,
  "with a dot": (bytes) => `${bytes.join(".")}.`,
  "wide digits": (bytes) =>
    bytes.join(".").replace(/\d/g, (digit) => String.fromCodePoint(0xff10 + Number(digit))),
};

const EMBEDDINGS: Readonly<Record<string, (high: string, low: string) => string>> = {
  mapped: (high, low) => `::ffff:${high}:${low}`,
  "mapped in full": (high, low) => `0:0:0:0:0:FFFF:${high}:${low}`,
  translated: (high, low) => `::ffff:0:${high}:${low}`,
  nat64: (high, low) => `64:ff9b::${high}:${low}`,
  "nat64 with zeros": (high, low) => `0064:ff9b:0000:0000:0000:0000:${high.padStart(4, "0")}:${low}`,
  "6to4": (high, low) => `2002:${high}:${low}::1`,
};

function toNumber(bytes: readonly number[]): number {
  return bytes.reduce((number, byte) => number * 256 + byte, 0);
}

const isPublic = (address: string): boolean => toAddressKind(address) === "public";

describe("the address rules", () => {
  fuzz("know an IPv4 address in each of its spellings, and its kind", {
    inputs: record({ bytes: bytes4, spelling: constantFrom(...Object.keys(SPELLINGS)) }),
    tries: 2_000,
    check({ bytes, spelling }) {
      const text = (SPELLINGS[spelling] as (bytes: readonly number[]) => string)(bytes);
      const address = bytes.join(".");
      expect(parseHostPort(`${text}:80`)).toEqual({ host: address, port: 80 });
      expect(isPublic(address)).toBe(!forbidden4.check(address, "ipv4"));
    },
  });

  fuzz("see an IPv4 address through each way of writing it as IPv6", {
    inputs: record({ bytes: bytes4, embedding: constantFrom(...Object.keys(EMBEDDINGS)) }),
    tries: 2_000,
    check({ bytes, embedding }) {
      const [high = "", low = ""] = [bytes.slice(0, 2), bytes.slice(2)].map((two) =>
        toNumber(two).toString(16),
      );
      const address = (EMBEDDINGS[embedding] as (high: string, low: string) => string)(high, low);
      const { host = "" } = parseHostPort(`[${address}]`) ?? {};
      const wanted = !forbidden4.check(bytes.join("."), "ipv4");
      expect([isPublic(address), isPublic(host)]).toEqual([wanted, wanted]);
      const dotted = `::ffff:${bytes.join(".")}`;
      expect(isPublic(dotted)).toBe(wanted);
    },
  });

  fuzz("know which IPv6 addresses are public", {
    inputs: record({
      prefix: constantFrom(
        "",
        "::",
        "64:ff9b:1:",
        "64:ff9b:2:",
        "fc00:",
        "fdff:",
        "fe00:",
        "fe80:",
        "febf:",
        "fec0:",
        "ff02:",
        "2001:0:",
        "2001:1:",
        "2606:",
        "5f00:",
        "5eff:",
      ),
      groups: array(integer({ min: 1, max: 0xffff }), { minLength: 8, maxLength: 8 }),
    }),
    tries: 2_000,
    check({ prefix, groups }) {
      const fixed = prefix === "::" ? "0:0:0:0:0:0:" : prefix;
      const rest = groups.slice(fixed.split(":").length - 1).map((group) => group.toString(16));
      const address = `${fixed}${rest.join(":")}`;
      // Addresses that hold an IPv4 address are the target above.
      if (address.startsWith("2002:")) return;
      expect(isPublic(address)).toBe(!forbidden6.check(address, "ipv6"));
    },
  });

  fuzz("let no name lead to an address that is not public, on any list", {
    inputs: record({
      bytes: bytes4,
      embedding: constantFrom("none", ...Object.keys(EMBEDDINGS)),
      list: constantFrom("name.test", "name.test:80", "*.test", "*.test:80", "*"),
    }),
    tries: 1_000,
    async check({ bytes, embedding, list }) {
      if (!forbidden4.check(bytes.join("."), "ipv4")) return;
      const [high = "", low = ""] = [bytes.slice(0, 2), bytes.slice(2)].map((two) =>
        toNumber(two).toString(16),
      );
      const address = EMBEDDINGS[embedding]?.(high, low) ?? bytes.join(".");
      const options = { patterns: parseHostPatterns([list]), resolve: async () => [address] };
      await expect(dial("name.test", 80, options)).rejects.toMatchObject({ status: 403 });
    },
  });
});

const labels = string({ unit: constantFrom("a", "b", "-", "0"), minLength: 1, maxLength: 3 }).map(
  (text) => `x${text}x`,
);
const names = array(labels, { minLength: 1, maxLength: 4 }).map((parts) => parts.join("."));
const ports = constantFrom(undefined, 80, 443);
const entries = tuple(constantFrom("", "*."), names, ports);

function toEntry([star, name, port]: readonly [string, string, number | undefined]): string {
  return `${star}${name}${port === undefined ? "" : `:${port}`}`;
}

function isCovered(
  [star, name, port]: readonly [string, string, number | undefined],
  host: string,
  asked: number,
): boolean {
  if (port !== undefined && port !== asked) return false;
  if (star === "") return host === name;
  const [parts, wanted] = [host.split("."), name.split(".")];
  return parts.length > wanted.length && parts.slice(-wanted.length).join(".") === name;
}

describe("the host rules", () => {
  fuzz("cover exactly their hosts, and open private networks only to names of that list", {
    inputs: record({
      allow: array(entries, { maxLength: 4 }),
      privates: array(entries, { maxLength: 2 }),
      host: names,
      tail: constantFrom(0, 1, 2),
      port: constantFrom(80, 443, 8080),
    }),
    tries: 3_000,
    check({ allow, privates, host: free, tail, port }) {
      // Half of the hosts are near an entry.
      const near = allow[0]?.[1];
      const host = near === undefined || tail === 0 ? free : tail === 1 ? near : `${free}.${near}`;
      const rules = {
        patterns: parseHostPatterns(allow.map(toEntry)),
        privates: parsePrivateNames(privates.map(toEntry)),
      };
      const isAllowed = allow.some((entry) => isCovered(entry, host, port));
      const isPrivate = isAllowed && privates.some((entry) => isCovered(entry, host, port));
      expect(judge(rules, host, port)).toBe(isPrivate ? "private" : isAllowed ? "allowed" : "refused");
    },
  });

  fuzz("understand any text or refuse it with a reason", {
    inputs: oneof(
      string({ unit: "binary", maxLength: 40 }),
      string({ unit: constantFrom(..."*.:[]/@%a1f x"), maxLength: 20 }),
    ),
    tries: 3_000,
    check(text) {
      for (const parse of [parseHostPatterns, parsePrivateNames]) {
        try {
          for (const { host } of parse([text])) expect(host).not.toMatch(/[\s/@#?[\]\\*]/);
        } catch (error) {
          expect(error).toMatchObject({
            code: "invalid_request",
            message: expect.stringContaining("Write for example"),
          });
        }
      }
    },
  });
});
