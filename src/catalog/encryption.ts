import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { linkSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SluiceError } from "../contract/index.ts";
import { secretUnreadable } from "./refusals.ts";

/** The document of a secret. A secret that is encrypted for one document cannot be decrypted for another. */
export interface SecretBinding {
  readonly tenant: string;
  readonly kind: string;
  readonly id: string;
}

const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** AES-256-GCM: nonce, tag and ciphertext, in base64. */
export function encrypt(key: Uint8Array, text: string, of: SecretBinding): string {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", key, nonce).setAAD(toBinding(of));
  const ciphertext = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), ciphertext]).toString("base64");
}

export function decrypt(key: Uint8Array, encrypted: string, of: SecretBinding): string {
  const bytes = Buffer.from(encrypted, "base64");
  const nonce = bytes.subarray(0, NONCE_BYTES);
  const tag = bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES);
  try {
    const decipher = createDecipheriv("aes-256-gcm", key, nonce, { authTagLength: TAG_BYTES });
    decipher.setAAD(toBinding(of)).setAuthTag(tag);
    const text = Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES)), decipher.final()]);
    return text.toString("utf8");
  } catch (cause) {
    throw secretUnreadable(of.kind, of.id, cause);
  }
}

function toBinding({ tenant, kind, id }: SecretBinding): Buffer {
  return Buffer.from(JSON.stringify([tenant, kind, id]));
}

const KEY_BYTES = 32;

/** The key in the folder, made on first use. Two processes that make it at the same time get the same key. */
export function readEncryptionKey(folder: string): Uint8Array {
  const path = join(folder, "catalog.key");
  return readKey(path) ?? makeKey(path);
}

function readKey(path: string): Uint8Array | undefined {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (!stat) return undefined;
  const key = readFileSync(path);
  if (key.length !== KEY_BYTES || (stat.mode & 0o077) !== 0) throw unfit(path);
  return key;
}

function makeKey(path: string): Uint8Array {
  makeOnce(path, randomBytes(KEY_BYTES));
  const key = readKey(path);
  if (!key) throw unfit(path);
  return key;
}

function unfit(path: string): SluiceError {
  const detail = `${path} must hold ${KEY_BYTES} bytes and be closed to others (chmod 600). Put the right file back; without it the stored secrets are lost.`;
  return new SluiceError("data_version", detail, { path });
}

/** Makes a file that only its owner may read, atomically. An existing file stays. */
export function makeOnce(path: string, content: string | Uint8Array): void {
  const temporary = `${path}.${process.pid}.${randomBytes(6).toString("hex")}`;
  try {
    writeFileSync(temporary, content, { mode: 0o600, flag: "wx", flush: true });
    // The link shows the complete file, and fails where another process was first.
    linkSync(temporary, path);
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
  } finally {
    rmSync(temporary, { force: true });
  }
}
