import { hash } from "node:crypto";

export function sha256(bytes: Uint8Array | string): string {
  return hash("sha256", bytes, "hex");
}

export function isSha256(text: unknown): text is string {
  return typeof text === "string" && /^[0-9a-f]{64}$/.test(text);
}
