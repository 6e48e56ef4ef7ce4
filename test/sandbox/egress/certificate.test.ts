import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:https";
import { get } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { createAuthority, issueCertificate } from "../../../src/sandbox/egress/certificate.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-certificate-"));
afterAll(() => rmSync(folder, { recursive: true }));

const authority = createAuthority();
const authorityFile = write("authority.pem", authority.cert);

describe("the authority of a sandbox", () => {
  it("is one to openssl, and may sign servers alone", () => {
    const text = openssl("x509", "-in", authorityFile, "-noout", "-text");
    expect(text).toMatch(/Basic Constraints: critical\s+CA:TRUE, pathlen:0/);
    expect(text).toMatch(/Key Usage: critical\s+Certificate Sign, CRL Sign/);
    expect(openssl("verify", "-x509_strict", "-CAfile", authorityFile, authorityFile)).toContain("OK");
  });

  it.each([
    ["a name", "api.example.test", "DNS:api.example.test"],
    ["a name of more than 64 letters", `${"a".repeat(63)}.${"b".repeat(63)}.test`, `DNS:${"a".repeat(63)}.`],
    ["an address", "127.0.0.1", "IP Address:127.0.0.1"],
    ["an address of IPv6", "2001:db8::7", "IP Address:2001:DB8:0:0:0:0:0:7"],
  ])("makes a certificate for %s that openssl verifies", (_, host, said) => {
    const file = write("leaf.pem", issueCertificate(authority, host).cert);
    expect(openssl("x509", "-in", file, "-noout", "-text")).toContain(said);
    const purpose = ["-purpose", "sslserver", "-x509_strict"];
    const named = host.includes(".test") ? ["-verify_hostname", host] : ["-verify_ip", host];
    expect(openssl("verify", ...purpose, ...named, "-CAfile", authorityFile, file)).toContain("OK");
  });

  it("is believed by Node for its own host and for no other", async () => {
    const server = createServer(issueCertificate(authority, "api.example.test"), (_request, response) =>
      response.end("hello"),
    );
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const ask = (servername: string, ca: string): Promise<string> =>
      new Promise((resolve, reject) => {
        get({ host: "127.0.0.1", port, servername, ca, agent: false }, (response) => {
          response.setEncoding("utf8").on("data", resolve);
        }).on("error", reject);
      });
    expect(await ask("api.example.test", authority.cert)).toBe("hello");
    await expect(ask("other.example.test", authority.cert)).rejects.toThrow("does not match");
    await expect(ask("api.example.test", createAuthority().cert)).rejects.toThrow();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
});

function write(name: string, text: string): string {
  const file = join(folder, name);
  writeFileSync(file, text);
  return file;
}

function openssl(...args: string[]): string {
  return execFileSync("openssl", args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
}
