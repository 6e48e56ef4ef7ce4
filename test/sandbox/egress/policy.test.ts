import { assert, property, string } from "fast-check";
import { describe, expect, it } from "vitest";
import {
  judge,
  parseHostPattern,
  parseHostPatterns,
  parsePrivateNames,
  toHosts,
} from "../../../src/sandbox/egress/allow-list.ts";
import { parseHostPort } from "../../../src/sandbox/egress/connection.ts";
import { toAddressKind } from "../../../src/sandbox/egress/host/dial.ts";

const POLICY = {
  patterns: parseHostPatterns(
    ["api.example.com", "*.example.org", "db.lan:5432", "127.0.0.1:8080", "10.0.0.7", "*.corp.test:443"],
    ["[::1]:9000", "wiki.corp.test:80"],
  ),
  privates: parsePrivateNames(["*.corp.test", "api.example.com:8443", "elsewhere.lan"]),
};

describe("an allow list", () => {
  it.each([
    ["api.example.com", 443, "allowed"],
    ["api.example.com", 8443, "private"],
    ["x.api.example.com", 443, "refused"],
    ["evilapi.example.com", 443, "refused"],
    ["api.example.com.evil.test", 443, "refused"],
    ["a.example.org", 443, "allowed"],
    ["a.b.example.org", 443, "allowed"],
    ["example.org", 443, "refused"],
    ["evilexample.org", 443, "refused"],
    ["db.lan", 5432, "allowed"],
    ["db.lan", 5433, "refused"],
    ["wiki.corp.test", 80, "private"],
    ["git.corp.test", 443, "private"],
    ["git.corp.test", 80, "refused"],
    ["elsewhere.lan", 80, "refused"],
    ["10.0.0.7", 80, "allowed"],
    ["127.0.0.1", 8080, "private"],
    ["127.0.0.1", 8081, "refused"],
    ["localhost", 8080, "refused"],
    ["::1", 9000, "private"],
  ])("finds %s:%i %s", (host, port, verdict) => {
    expect(judge(POLICY, host, port)).toBe(verdict);
  });

  it.each([
    "",
    "**",
    "*:443",
    "*.",
    "a.*.com",
    "https://example.com",
    "example.com/path",
    "10.0.0.0/8",
    "example.com:0",
    "example.com:70000",
    "example.com:",
    "user@example.com",
    "two words",
    "localhost",
    "127.0.0.1",
    "127.1",
    "[::1]",
    "*.localhost",
    "0.0.0.0:80",
    "*.127.0.0.1",
  ])("refuses %j, with an example of what it takes", (text) => {
    expect(() => parseHostPattern(text)).toThrow(
      expect.objectContaining({
        code: "invalid_request",
        message: expect.stringMatching(/Write for example \S+/),
      }),
    );
  });

  it.each([
    ["api.example.com", 443],
    ["93.184.215.14", 22],
    ["2606:4700::1111", 443],
    ["localhost", 8080],
    ["169.254.169.254", 80],
  ])("that is open leaves %s:%i to its address, and names nothing", (host, port) => {
    expect(judge({ patterns: parseHostPatterns(["*"]) }, host, port)).toBe("allowed");
    const both = { patterns: parseHostPatterns(["*", "localhost:8080"]) };
    expect(judge(both, "localhost", 8080)).toBe("private");
  });

  it.each(["*", "127.0.0.1:80", "10.0.0.7", "localhost:80", "a b", "https://x.test"])(
    "has no private name %j, and says what to write",
    (text) => {
      expect(() => parsePrivateNames([text])).toThrow(
        expect.objectContaining({
          code: "invalid_request",
          message: expect.stringMatching(/Write for example \S+/),
        }),
      );
    },
  );

  it.each([
    ["API.Example.COM.", { host: "api.example.com", port: undefined }],
    ["bücher.example:443", { host: "xn--bcher-kva.example", port: 443 }],
    ["0x7f000001:80", { host: "127.0.0.1", port: 80 }],
    ["[0:0:0:0:0:0:0:1]:80", { host: "::1", port: 80 }],
  ])("knows %s in every spelling", (text, parsed) => {
    expect(parseHostPort(text)).toEqual(parsed);
  });

  it("never takes one host for another, in any spelling", () => {
    assert(
      property(string({ unit: "binary", maxLength: 30 }), (text) => {
        const parsed = parseHostPort(text);
        if (parsed === undefined) return;
        expect(parsed.host).not.toMatch(/[\s/@#?[\]\\]/);
        // Parsing is stable.
        const again = parseHostPort(parsed.host.includes(":") ? `[${parsed.host}]` : parsed.host);
        expect(again?.host).toBe(parsed.host);
      }),
    );
  });

  it("names the hosts of URLs and nothing else of them", () => {
    const urls = [
      "http://me:secret@127.0.0.1:8080/mcp?key=secret",
      "https://mcp.example.com/x",
      "ws://[::1]:9000",
    ];
    expect(toHosts(urls)).toEqual(["127.0.0.1:8080", "mcp.example.com:443", "[::1]:9000"]);
  });
});

describe("an address", () => {
  it.each([
    ["93.184.215.14", "public"],
    ["2606:4700::1111", "public"],
    ["64:ff9b::5db8:d70e", "public"],
    ["127.8.9.1", "loopback"],
    ["::1", "loopback"],
    ["::ffff:127.0.0.1", "loopback"],
    ["::ffff:7f00:1", "loopback"],
    ["64:ff9b::7f00:1", "loopback"],
    ["2002:7f00:1::", "loopback"],
    ["169.254.169.254", "metadata"],
    ["::ffff:a9fe:a9fe", "metadata"],
    ["168.63.129.16", "metadata"],
    ["::ffff:168.63.129.16", "metadata"],
    ["64:ff9b::a83f:8110", "metadata"],
    ["100.100.100.200", "metadata"],
    ["fd00:ec2::254", "metadata"],
    ["fd20:ce::254", "metadata"],
    ["169.254.7.7", "link-local"],
    ["64:ff9b:1::1", "private"],
    ["64:ff9b:1:fffe::808:808", "private"],
    ["::ffff:0:7f00:1", "loopback"],
    ["64:ff9b::a00:1", "private"],
    ["2002:a00:1::1", "private"],
    ["2001:0:4136:e378:8000:63bf:3fff:fdd2", "unusable"],
    ["fe80::1", "link-local"],
    ["10.1.2.3", "private"],
    ["172.31.255.255", "private"],
    ["172.32.0.1", "public"],
    ["192.168.0.1", "private"],
    ["100.64.0.1", "private"],
    ["fd12:3456::1", "private"],
    ["0.0.0.0", "unusable"],
    ["::", "unusable"],
    ["::7f00:1", "unusable"],
    ["224.0.0.1", "unusable"],
    ["255.255.255.255", "unusable"],
    ["ff02::1", "unusable"],
    ["fe80::1%eth0", "unusable"],
    ["nonsense", "unusable"],
  ])("%s is %s", (address, kind) => {
    expect(toAddressKind(address)).toBe(kind);
  });
});
