import { describe, expect, it } from "vitest";
import { findPrivateHost, isPrivateHost } from "../../src/sessions/hosts.ts";

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
