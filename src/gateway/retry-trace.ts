import { createHash } from "node:crypto";
import { defined } from "../contract/own-keys.ts";

/** The most failed requests that are remembered. */
const MOST_KEPT = 64;

/** Tells a retry by its body: the same bytes as those of a request that failed before. */
export class RetryTrace {
  readonly #failed = new Map<string, { id: string; attempt: number }>();
  readonly #attempts = new Map<string, number>();

  attemptOf(body: Buffer, told: number | undefined): { attempt?: number; retryOf?: string } {
    const earlier = this.#failed.get(toHash(body));
    const attempt = told ?? (earlier === undefined ? 1 : earlier.attempt + 1);
    this.#attempts.set(toHash(body), attempt);
    return defined({ attempt, retryOf: earlier?.id });
  }

  ended(id: string, body: Buffer, { isFailed }: { isFailed: boolean }): void {
    const hash = toHash(body);
    const attempt = this.#attempts.get(hash) ?? 1;
    this.#attempts.delete(hash);
    this.#failed.delete(hash);
    if (!isFailed) return;
    this.#failed.set(hash, { id, attempt });
    for (const oldest of this.#failed.keys()) {
      if (this.#failed.size <= MOST_KEPT) return;
      this.#failed.delete(oldest);
    }
  }
}

function toHash(body: Buffer): string {
  return createHash("sha256").update(body).digest("base64");
}
