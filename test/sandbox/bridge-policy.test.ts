import { createServer } from "node:net";
import { assert, property, string } from "fast-check";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { createBridge } from "../../src/sandbox/bridge/bridge.ts";
import { toAddressKind } from "../../src/sandbox/bridge/host/address.ts";
import { dial } from "../../src/sandbox/bridge/host/dial.ts";
import { judge } from "../../src/sandbox/bridge/host/verdict.ts";
import {
  parseHostPattern,
  parseHostPatterns,
  parsePrivateNames,
  toHosts,
} from "../../src/sandbox/bridge/hostPattern.ts";
import { parseHostPort } from "../../src/sandbox/bridge/hostPort.ts";
import { BridgeLab } from "./bridge-lab.ts";

const lab = new BridgeLab();
afterEach(() => lab.clear());
afterAll(() => lab.remove());

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

  it("never takes one host for another, whatever a client writes", () => {
    assert(
      property(string({ unit: "binary", maxLength: 30 }), (text) => {
        const parsed = parseHostPort(text);
        if (parsed === undefined) return;
        expect(parsed.host).not.toMatch(/[\s/@#?[\]\\]/);
        // What was understood once is understood the same again.
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

describe("a connection to the outside", () => {
  it("goes to the address that was checked, whatever the name stands for a moment later", async () => {
    const first = createServer((socket) => socket.resume().end("first"));
    const port = await lab.listen(first);
    const answers = [["127.0.0.1"], ["127.0.0.2"]];
    const resolve = async () => answers.shift() ?? [];
    const socket = await dial("flip.test", port, {
      patterns: parseHostPatterns([`flip.test:${port}`]),
      privates: parsePrivateNames(["flip.test"]),
      resolve,
    });
    expect(socket.remoteAddress).toBe("127.0.0.1");
    expect(answers).toEqual([["127.0.0.2"]]);
    socket.destroy();
  });

  it("takes the one good address of several", async () => {
    const port = await lab.listen(createServer((socket) => socket.resume().end()));
    const addresses = ["0.0.0.0", "169.254.169.254", "127.0.0.1"];
    const resolve = async () => addresses;
    const socket = await dial("mixed.test", port, {
      patterns: parseHostPatterns([`mixed.test:${port}`]),
      privates: parsePrivateNames(["mixed.test"]),
      resolve,
    });
    expect(socket.remoteAddress).toBe("127.0.0.1");
    socket.destroy();
  });

  it.each([
    ["meta.test", ["169.254.169.254"], 403, "no name may stand for such an address"],
    ["azure.test", ["168.63.129.16"], 403, "no name may stand for such an address"],
    ["aws.test", ["fd00:ec2::254"], 403, "no name may stand for such an address"],
    ["zero.test", ["0.0.0.0"], 403, "no name may stand for such an address"],
    ["none.test", [], 502, "has no address"],
  ])("is refused to %s even as a private name with its port", async (host, addresses, status, text) => {
    const options = {
      patterns: parseHostPatterns([`${host}:80`]),
      privates: parsePrivateNames([host]),
      resolve: async () => addresses,
    };
    const refusal = expect.objectContaining({ status, message: expect.stringContaining(text) });
    await expect(dial(host, 80, options)).rejects.toEqual(refusal);
  });

  it.each([
    ["localhost", []],
    ["127.0.0.1", []],
    ["::1", []],
    ["::ffff:127.0.0.1", []],
    ["rebound.test", ["127.0.0.1"]],
    ["lan.test", ["10.0.0.7", "192.168.1.1", "fd12::1"]],
    ["meta.test", ["169.254.169.254"]],
    ["169.254.169.254", []],
    ["mixed.test", ["127.0.0.1", "10.1.1.1", "fe80::1"]],
    ["0.0.0.0", []],
  ])("is refused to %s where every public host is allowed", async (host, addresses) => {
    const port = await lab.listen(createServer((socket) => socket.destroy()));
    const options = { patterns: parseHostPatterns(["*"]), resolve: async () => addresses };
    await expect(dial(host, port, options)).rejects.toMatchObject({ status: 403 });
  });

  it.each([
    ["127.0.0.1"],
    ["::1"],
    ["::ffff:127.0.0.1"],
    ["10.0.0.7"],
    ["192.168.1.1"],
    ["172.16.0.1"],
    ["100.64.0.1"],
    ["fd12::1"],
    ["169.254.169.254"],
    ["168.63.129.16"],
    ["fd00:ec2::254"],
    ["64:ff9b::7f00:1"],
    ["64:ff9b:1::1"],
    ["2002:7f00:1::"],
    ["::ffff:0:7f00:1"],
    ["::7f00:1"],
    ["224.0.0.1"],
    ["255.255.255.255"],
    ["0.0.0.0"],
    ["ff02::1"],
  ])("is refused to a name that stands for %s, however the name got onto a list", async (address) => {
    for (const list of ["a.name.test:80", "a.name.test", "*.name.test", "*.name.test:80", "*"]) {
      const options = { patterns: parseHostPatterns([list]), resolve: async () => [address] };
      const refusal = {
        status: 403,
        message: expect.stringMatching(/"private":\["a\.name\.test"\]|name the address/),
      };
      await expect(dial("a.name.test", 80, options)).rejects.toMatchObject(refusal);
    }
  });

  it("says why a name has no answer", async () => {
    const error = Object.assign(new Error("no"), { code: "ENOTFOUND" });
    const resolve = () => Promise.reject(error);
    const refused = dial("gone.test", 80, { patterns: parseHostPatterns(["gone.test"]), resolve });
    await expect(refused).rejects.toMatchObject({
      status: 502,
      message: expect.stringContaining("ENOTFOUND"),
    });
  });
});

describe("a bridge", () => {
  const folder = "/nonexistent";
  const programs = { host: "host.js", guest: "guest.js", preload: "preload.cjs" };

  it("is needed only where something has to cross", async () => {
    const needed = (options: Omit<Parameters<typeof createBridge>[0], "folder" | "programs">) =>
      createBridge({ folder, programs, ...options }).needed;
    expect(needed({ policy: { mode: "none" }, extraHosts: ["api.example.com", "127.0.0.1:80"] })).toBe(false);
    expect(needed({ policy: { mode: "loopback" }, extraHosts: ["api.example.com"] })).toBe(false);
    expect(needed({ policy: { mode: "loopback" }, extraHosts: ["127.0.0.1:8080"] })).toBe(true);
    expect(needed({ policy: { mode: "loopback" }, ports: true })).toBe(true);
    expect(needed({ policy: { mode: "full" }, extraHosts: ["api.example.com"], ports: true })).toBe(false);
    expect(needed({ policy: { mode: "allow", hosts: [] } })).toBe(true);
    expect(needed({ policy: { mode: "allow", hosts: [] }, ports: false })).toBe(false);
  });

  it("that is not needed asks for nothing", async () => {
    const bridge = createBridge({ folder, programs, policy: { mode: "full" } });
    expect(bridge).toMatchObject({ env: {}, prefix: [], needs: [], shortcomings: [] });
    expect(await bridge.start()).toBeUndefined();
    expect((await bridge.openPort(3000)).href).toBe("http://127.0.0.1:3000/");
  });

  it("keeps its proxy off a port that was named", () => {
    const bridge = createBridge({ folder, programs, policy: { mode: "allow", hosts: ["127.0.0.1:47128"] } });
    expect(bridge.env["HTTPS_PROXY"]).toBe("http://127.0.0.1:47129");
  });

  it("says which named port it cannot bring inside", () => {
    const bridge = createBridge({ folder, programs, policy: { mode: "allow", hosts: ["localhost:80"] } });
    expect(bridge.shortcomings).toEqual([expect.stringContaining("The port 80 of this machine")]);
  });

  it("refuses a bad host of any list at once", () => {
    const make = (extraHosts: string[]) =>
      createBridge({ folder, programs, policy: { mode: "loopback" }, extraHosts });
    expect(() => make(["http://x"])).toThrow(expect.objectContaining({ code: "invalid_request" }));
  });
});
