import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { rootCertificates } from "node:tls";
import type { Lending } from "../../contract/launch.ts";
import { createAuthority, type Certified } from "./certificate.ts";

/** Where a sandbox's egress host gets lent secrets, and the authority that signs its certificates. */
interface Trust {
  readonly lending: Lending;
  readonly authority: Certified;
}

/** The folder of the public certificates, as the sandbox sees it. */
export const TRUST_PATH = "/run/sluice-trust";
const AUTHORITY_FILE = "authority.pem";
const BUNDLE_FILE = "bundle.pem";

/** The distributions' files of trusted certificates. */
const SYSTEM_BUNDLES = [
  "/etc/ssl/certs/ca-certificates.crt",
  "/etc/pki/tls/certs/ca-bundle.crt",
  "/etc/ssl/ca-bundle.pem",
  "/etc/ssl/cert.pem",
];

/** Stores the lending of a sandbox, with an authority that never changes: processes inside have read its certificate. */
export function keepTrust(folder: string, lending: Lending): void {
  const known = findTrust(folder);
  const { url, token } = known?.lending ?? {};
  if (known !== undefined && url === lending.url && token === lending.token) return;
  const authority = known?.authority ?? createAuthority();
  if (known === undefined) publish(folder, authority);
  const file = toFile(folder);
  writeFileSync(`${file}.new`, JSON.stringify({ lending, authority } satisfies Trust), { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

export function findTrust(folder: string): Trust | undefined {
  const file = toFile(folder);
  return existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Trust) : undefined;
}

/** The folder of the public certificates on this host. */
export function toTrustFolder(folder: string): string {
  return join(folder, "trust");
}

/** Each program knows one of these. Some add the file to their own certificates, others replace them by it. */
export function toTrustEnvironment(): Record<string, string> {
  const bundle = `${TRUST_PATH}/${BUNDLE_FILE}`;
  return {
    NODE_EXTRA_CA_CERTS: `${TRUST_PATH}/${AUTHORITY_FILE}`,
    DENO_CERT: `${TRUST_PATH}/${AUTHORITY_FILE}`,
    SSL_CERT_FILE: bundle,
    CURL_CA_BUNDLE: bundle,
    REQUESTS_CA_BUNDLE: bundle,
    GIT_SSL_CAINFO: bundle,
    PIP_CERT: bundle,
    AWS_CA_BUNDLE: bundle,
    CARGO_HTTP_CAINFO: bundle,
  };
}

function publish(folder: string, { cert }: Certified): void {
  const shown = toTrustFolder(folder);
  mkdirSync(shown, { recursive: true });
  chmodSync(shown, 0o755);
  const system = SYSTEM_BUNDLES.find((path) => existsSync(path));
  const trusted = system === undefined ? rootCertificates.join("\n") : readFileSync(system, "utf8");
  for (const [name, text] of [
    [AUTHORITY_FILE, cert],
    [BUNDLE_FILE, `${trusted.trimEnd()}\n${cert}`],
  ] as const) {
    writeFileSync(join(shown, name), text);
    chmodSync(join(shown, name), 0o644);
  }
}

/** It holds the private key, so it lies beside the folder that the sandbox sees. */
function toFile(folder: string): string {
  return join(folder, "trust.json");
}
