import { hash } from "node:crypto";
import { SluiceError } from "../../../contract/index.ts";

export function sha256(bytes: Uint8Array | string): string {
  return hash("sha256", bytes, "hex");
}

export function isSha256(text: unknown): text is string {
  return typeof text === "string" && /^[0-9a-f]{64}$/.test(text);
}

/** The error for stored bytes that do not match their name or format. Such bytes are never used. */
export function corrupt(key: string, why: string): SluiceError {
  const detail = `The checkpoint storage is damaged: ${key} ${why}. Restore another checkpoint, or put ${key} back from a copy of the storage.`;
  return new SluiceError("internal", detail, { corrupt: key });
}
