import { createServer } from "node:net";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { createEgress } from "../../../src/sandbox/egress/egress.ts";
import { dial } from "../../../src/sandbox/egress/host/dial.ts";
import { parseHostPatterns, parsePrivateNames } from "../../../src/sandbox/egress/allow-list.ts";
import { EgressLab } from "./lab.ts";

const lab = new EgressLab();

afterEach(() => lab.clear());

afterAll(() => lab.remove());

describe("a connection to the outside", () => {
  it("goes to the checked address, also when the name resolves to another one a moment later", async () => {
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

describe("an egress proxy", () => {
  const folder = "/nonexistent";
  const programs = { host: "host.js", guest: "guest.js", preload: "preload.cjs" };

  it("is needed only where something has to cross", async () => {
    const needed = (options: Omit<Parameters<typeof createEgress>[0], "folder" | "programs">) =>
      createEgress({ folder, programs, ...options }).needed;
    expect(needed({ policy: { mode: "none" }, extraHosts: ["api.example.com", "127.0.0.1:80"] })).toBe(false);
    expect(needed({ policy: { mode: "loopback" }, extraHosts: ["api.example.com"] })).toBe(false);
    expect(needed({ policy: { mode: "loopback" }, extraHosts: ["127.0.0.1:8080"] })).toBe(true);
    expect(needed({ policy: { mode: "loopback" }, ports: true })).toBe(true);
    expect(needed({ policy: { mode: "full" }, extraHosts: ["api.example.com"], ports: true })).toBe(false);
    expect(needed({ policy: { mode: "allow", hosts: [] } })).toBe(true);
    expect(needed({ policy: { mode: "allow", hosts: [] }, ports: false })).toBe(false);
  });

  it("that is not needed asks for nothing", async () => {
    const egress = createEgress({ folder, programs, policy: { mode: "full" } });
    expect(egress).toMatchObject({ env: {}, prefix: [], needs: [], shortcomings: [] });
    expect(await egress.start()).toBeUndefined();
    expect((await egress.openPort(3000)).href).toBe("http://127.0.0.1:3000/");
  });

  it("keeps its proxy off a port that was named", () => {
    const egress = createEgress({ folder, programs, policy: { mode: "allow", hosts: ["127.0.0.1:47128"] } });
    expect(egress.env["HTTPS_PROXY"]).toBe("http://127.0.0.1:47129");
  });

  it("says which named port it cannot bring inside", () => {
    const egress = createEgress({ folder, programs, policy: { mode: "allow", hosts: ["localhost:80"] } });
    expect(egress.shortcomings).toEqual([expect.stringContaining("The port 80 of this machine")]);
  });

  it("refuses a bad host of any list at once", () => {
    const make = (extraHosts: string[]) =>
      createEgress({ folder, programs, policy: { mode: "loopback" }, extraHosts });
    expect(() => make(["http://x"])).toThrow(expect.objectContaining({ code: "invalid_request" }));
  });
});
