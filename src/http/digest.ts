import { createHash } from "node:crypto";

export function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

/** Equal values have equal digests. */
export function digestOf(...values: unknown[]): string {
  return sha256(JSON.stringify(values));
}
