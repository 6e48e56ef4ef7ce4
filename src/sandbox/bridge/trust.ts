import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { rootCertificates } from "node:tls";
import type { Lending } from "../../contract/launch.ts";
import { createAuthority, type Certified } from "./certificate.ts";

/** What a sandbox that secrets are lent to has beside its network: where they are lent, and its authority. */
export interface Trust {
  readonly lending: Lending;
  readonly authority: Certified;
}

/** What is seen of it inside. */
export const TRUST_PATH = "/run/sluice-trust";
const AUTHORITY_FILE = "authority.pem";
const BUNDLE_FILE = "bundle.pem";

/** Where the distributions keep what they believe. */
const SYSTEM_BUNDLES = [
  "/etc/ssl/certs/ca-certificates.crt",
  "/etc/pki/tls/certs/ca-bundle.crt",
  "/etc/ssl/ca-bundle.pem",
  "/etc/ssl/cert.pem",
];

/** Keeps it for the sandbox of this folder. The authority stays the same for good: who runs inside has read it. */
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

/** The part that is seen inside, as it lies on the host. */
export function toTrustFolder(folder: string): string {
  return join(folder, "trust");
}

/** Each program knows one of these: some add a file to what they believe, the others take it for all of that. */
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
  const believed = system === undefined ? rootCertificates.join("\n") : readFileSync(system, "utf8");
  for (const [name, text] of [
    [AUTHORITY_FILE, cert],
    [BUNDLE_FILE, `${believed.trimEnd()}\n${cert}`],
  ] as const) {
    writeFileSync(join(shown, name), text);
    chmodSync(join(shown, name), 0o644);
  }
}

/** Beside the part that is seen, never in it. */
function toFile(folder: string): string {
  return join(folder, "trust.json");
}
