import { describe, expect, it } from "vitest";
import type { SessionSpec } from "../../src/contract/index.ts";
import { findPrivateHost, isPrivateHost, listPrivateHosts } from "../../src/sessions/private-hosts.ts";

const PRIVATE = ["127.0.0.1:80", "localhost:80", "x.localhost:1", "10.0.0.7", "[::1]:9", "0x7f.1:5"];
const LINK_LOCAL = ["169.254.169.254:80", "168.63.129.16", "[::ffff:10.0.0.1]:1"];
const PUBLIC = ["api.example.com", "*.example.com:443", "*", "93.184.215.14"];

describe("the private hosts of an allow list", () => {
  it.each([...PRIVATE, ...LINK_LOCAL])("%s is one", (host) => {
    expect(findPrivateHost([...PUBLIC, host])).toBe(host);
  });

  it("are none of the public hosts", () => {
    expect(findPrivateHost(PUBLIC)).toBeUndefined();
  });

  it.each([
    ["http://127.1:80/mcp", true],
    ["http://[fd00::1]:4000", true],
    ["https://mcp.example.com", false],
  ])("%s: %s", (url, isPrivate) => {
    expect(isPrivateHost(new URL(url).hostname)).toBe(isPrivate);
  });
});

const CASES: readonly (readonly [Pick<SessionSpec, "network" | "mcp" | "env">, readonly string[]])[] = [
  [{}, []],
  [{ network: "none" }, []],
  [{ network: "full" }, ["network: full"]],
  [{ network: { allow: ["api.example.com", "*.example.com:443", "*", "93.184.215.14"] } }, []],
  [
    {
      network: {
        allow: ["127.0.0.1:80", "localhost:80", "x.localhost:1", "10.0.0.7", "[::1]:9", "0x7f.1:5"],
      },
    },
    ["127.0.0.1:80", "localhost:80", "x.localhost:1", "10.0.0.7", "[::1]:9", "0x7f.1:5"],
  ],
  [
    { network: { allow: ["169.254.169.254:80", "168.63.129.16", "[::ffff:10.0.0.1]:1"] } },
    ["169.254.169.254:80", "168.63.129.16", "[::ffff:10.0.0.1]:1"],
  ],
  [{ network: { allow: ["db.lan"], private: ["db.lan"] } }, ["db.lan"]],
  [
    {
      mcp: {
        a: { type: "http", url: "http://127.1:80/mcp" },
        b: { type: "sse", url: "https://mcp.example.com" },
      },
    },
    ["http://127.1:80/mcp"],
  ],
  [
    { env: { ANTHROPIC_BASE_URL: "http://[fd00::1]:4000", NOTE: "localhost", X: "a b" } },
    ["http://[fd00::1]:4000"],
  ],
];

describe("the private hosts of a spec", () => {
  it.each(CASES)("%j: %j", (spec, places) => {
    expect(listPrivateHosts(spec)).toEqual(places);
  });
});
