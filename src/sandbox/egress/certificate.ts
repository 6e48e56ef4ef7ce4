import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  randomBytes,
  sign,
  X509Certificate,
} from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { isIP } from "node:net";
import { join } from "node:path";
import { rootCertificates } from "node:tls";
import type { Lending } from "../../contract/process.ts";
import { toGroups } from "./connection.ts";

/** A private key and the certificate of its public half, as PEM. */
export interface Certified {
  readonly key: string;
  readonly cert: string;
}

const DAY_MS = 86_400_000;
const AUTHORITY_DAYS = 3_650;
export const LEAF_DAYS = 90;

/** A private authority, trusted only where it is installed. */
export function createAuthority(): Certified {
  const name = `sluice sandbox ${randomBytes(4).toString("hex")}`;
  const key = createKey();
  const spki = toSpki(key);
  const cert = signCertificate({
    subject: name,
    issuer: name,
    spki,
    days: AUTHORITY_DAYS,
    extensions: [
      extension(OID.basicConstraints, sequence(TRUE, integer(Buffer.of(0))), true),
      // keyCertSign and cRLSign.
      extension(OID.keyUsage, bitString(Buffer.of(0x06), 1), true),
      extension(OID.subjectKeyId, octetString(keyId(spki))),
    ],
    signer: key,
  });
  return { key, cert };
}

/** A server's certificate for one host name or address. */
export function issueCertificate(authority: Certified, host: string): Certified {
  const key = createKey();
  const spki = toSpki(key);
  const cert = signCertificate({
    subject: host,
    issuer: toCommonName(authority),
    spki,
    days: LEAF_DAYS,
    extensions: [
      extension(OID.basicConstraints, sequence(), true),
      // digitalSignature.
      extension(OID.keyUsage, bitString(Buffer.of(0x80), 7), true),
      extension(OID.extendedKeyUsage, sequence(oid(OID.serverAuth))),
      extension(OID.subjectAltName, sequence(toAltName(host))),
      extension(OID.authorityKeyId, sequence(tagged(0x80, keyId(toSpki(authority.key))))),
      extension(OID.subjectKeyId, octetString(keyId(spki))),
    ],
    signer: authority.key,
  });
  return { key, cert };
}

interface CertificateFields {
  readonly subject: string;
  readonly issuer: string;
  readonly spki: Buffer;
  readonly days: number;
  readonly extensions: readonly Buffer[];
  /** The private key that signs it. */
  readonly signer: string;
}

/** RFC 5280, signed with ECDSA and SHA-256. */
function signCertificate({ subject, issuer, spki, days, extensions, signer }: CertificateFields): string {
  const algorithm = sequence(oid(OID.ecdsaWithSha256));
  const now = Date.now();
  const body = sequence(
    tagged(0xa0, integer(Buffer.of(2))),
    // The serial number is positive.
    integer(Buffer.concat([Buffer.of(0x01), randomBytes(15)])),
    algorithm,
    toName(issuer),
    // A sandbox's clock may be slow.
    sequence(time(now - DAY_MS), time(now + days * DAY_MS)),
    toName(subject),
    spki,
    tagged(0xa3, sequence(...extensions)),
  );
  const signature = sign("sha256", body, createPrivateKey(signer));
  return toPem(sequence(body, algorithm, bitString(signature, 0)));
}

const OID = {
  authorityKeyId: "2.5.29.35",
  basicConstraints: "2.5.29.19",
  commonName: "2.5.4.3",
  ecdsaWithSha256: "1.2.840.10045.4.3.2",
  extendedKeyUsage: "2.5.29.37",
  keyUsage: "2.5.29.15",
  serverAuth: "1.3.6.1.5.5.7.3.1",
  subjectAltName: "2.5.29.17",
  subjectKeyId: "2.5.29.14",
} as const;

/** RFC 5280 allows no longer common name. Clients check the names in subjectAltName. */
const LONGEST_NAME = 64;

function toName(text: string): Buffer {
  const name = tagged(0x0c, Buffer.from(text.slice(0, LONGEST_NAME)));
  return sequence(tagged(0x31, sequence(oid(OID.commonName), name)));
}

function toCommonName({ cert }: Certified): string {
  return new X509Certificate(cert).subject.replace(/^CN=/, "");
}

function toAltName(host: string): Buffer {
  const family = isIP(host);
  if (family === 0) return tagged(0x82, Buffer.from(host, "ascii"));
  return tagged(0x87, family === 4 ? Buffer.from(host.split(".").map(Number)) : toBytes6(host));
}

function toBytes6(address: string): Buffer {
  const groups = toGroups(address).map((group) => Number.parseInt(group, 16));
  return Buffer.from(groups.flatMap((group) => [group >> 8, group & 255]));
}

function createKey(): string {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  return privateKey.export({ type: "pkcs8", format: "pem" }).toString();
}

function toSpki(key: string): Buffer {
  return createPublicKey(key).export({ type: "spki", format: "der" });
}

function keyId(spki: Buffer): Buffer {
  return createHash("sha256").update(spki).digest().subarray(0, 20);
}

function extension(id: string, value: Buffer, isCritical = false): Buffer {
  return sequence(oid(id), ...(isCritical ? [TRUE] : []), octetString(value));
}

const TRUE = tagged(0x01, Buffer.of(0xff));

function sequence(...parts: readonly Buffer[]): Buffer {
  return tagged(0x30, Buffer.concat(parts));
}

function integer(bytes: Buffer): Buffer {
  return tagged(0x02, bytes);
}

function octetString(bytes: Buffer): Buffer {
  return tagged(0x04, bytes);
}

function bitString(bytes: Buffer, unused: number): Buffer {
  return tagged(0x03, Buffer.concat([Buffer.of(unused), bytes]));
}

/** UTCTime up to 2049, as RFC 5280 wants it, and GeneralizedTime from then on. */
function time(ms: number): Buffer {
  const text = new Date(ms).toISOString().replace(/[-:T]|\.\d+/g, "");
  return text < "2050" ? tagged(0x17, Buffer.from(text.slice(2))) : tagged(0x18, Buffer.from(text));
}

function oid(text: string): Buffer {
  const [first = 0, second = 0, ...rest] = text.split(".").map(Number);
  return tagged(0x06, Buffer.from([first * 40 + second, ...rest.flatMap(toBase128)]));
}

function toBase128(value: number): number[] {
  const digits = [value & 127];
  for (let left = value >>> 7; left > 0; left >>>= 7) digits.unshift((left & 127) | 128);
  return digits;
}

function tagged(tag: number, content: Buffer): Buffer {
  return Buffer.concat([Buffer.of(tag), toLength(content.length), content]);
}

function toLength(length: number): Buffer {
  if (length < 128) return Buffer.of(length);
  const digits: number[] = [];
  for (let left = length; left > 0; left >>>= 8) digits.unshift(left & 255);
  return Buffer.of(128 | digits.length, ...digits);
}

function toPem(der: Buffer): string {
  const lines = der.toString("base64").match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`;
}

/** The lending that a sandbox's egress host asks for secrets, and the authority that signs its certificates. */
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
