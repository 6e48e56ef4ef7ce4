import { createHash } from "node:crypto";
import type { Submission } from "./submission.ts";

/** What a request was, so that the same idempotency key with other words can be told apart. */
export function fingerprintOf(via: string, submissions: readonly Submission[]): string {
  return createHash("sha256")
    .update(JSON.stringify([via, submissions]))
    .digest("base64url");
}
