import { setTimeout as sleep } from "node:timers/promises";
import { SluiceClientError } from "../../src/client/index.ts";

/** How long a fault may make itself felt. */
export const SETTLE_MS = 180_000;

/** Errors that a client may get at any moment of a soak. */
export const ANY = [
  "session_busy",
  "session_ended",
  "session_not_found",
  "capability_missing",
  "invalid_request",
  "already_resolved",
  "action_not_found",
  "file_not_found",
];

/** Asks again until the server answers: it may be dead, starting, leaving or without a disk at any moment. */
export async function insist<T>(
  call: () => Promise<T>,
  harmless: readonly string[] = [],
): Promise<T | undefined> {
  for (const deadline = Date.now() + SETTLE_MS; ; await sleep(100)) {
    try {
      return await call();
    } catch (error) {
      const { code, retryable } = error instanceof SluiceClientError ? error : { code: "", retryable: true };
      if (harmless.includes(code)) return undefined;
      if (!retryable || Date.now() > deadline) throw error;
    }
  }
}
