import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { sealBroken } from "./refusals.ts";

/** Whose secret it is: sealed for one document, it opens for no other. */
export interface Sealed {
  readonly owner: string;
  readonly kind: string;
  readonly id: string;
}

const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** AES-256-GCM: nonce, tag and ciphertext, in base64. */
export function seal(key: Uint8Array, text: string, of: Sealed): string {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", key, nonce).setAAD(toBinding(of));
  const ciphertext = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), ciphertext]).toString("base64");
}

export function unseal(key: Uint8Array, sealed: string, of: Sealed): string {
  const bytes = Buffer.from(sealed, "base64");
  const nonce = bytes.subarray(0, NONCE_BYTES);
  const tag = bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES);
  try {
    const decipher = createDecipheriv("aes-256-gcm", key, nonce, { authTagLength: TAG_BYTES });
    decipher.setAAD(toBinding(of)).setAuthTag(tag);
    const text = Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES)), decipher.final()]);
    return text.toString("utf8");
  } catch (cause) {
    throw sealBroken(of.kind, of.id, cause);
  }
}

function toBinding({ owner, kind, id }: Sealed): Buffer {
  return Buffer.from(JSON.stringify([owner, kind, id]));
}
