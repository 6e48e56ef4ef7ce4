import { createHash } from "node:crypto";
import type { SessionInput } from "./port.ts";

/** What a request was, so that the same idempotency key with other words can be told apart. */
export function fingerprintOf({ content, via, payload }: SessionInput): string {
  return createHash("sha256")
    .update(JSON.stringify([via, content, payload ?? null]))
    .digest("base64url");
}
