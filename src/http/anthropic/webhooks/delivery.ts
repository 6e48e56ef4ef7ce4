import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "../../context.ts";
import { toSignedHeaders } from "./signature.ts";

export interface Patience {
  /** The delay after the first failure; each further one doubles it. */
  readonly firstMs: number;
  readonly mostMs: number;
  /** After so many failures in a row the endpoint is given up until the next start. */
  readonly failures: number;
  /** How long a response may take. */
  readonly timeoutMs: number;
}

export const PATIENCE: Patience = { firstMs: 1_000, mostMs: 300_000, failures: 20, timeoutMs: 10_000 };

export interface WebhookStats {
  delivered: number;
  failed: number;
  /** Endpoints that get no more deliveries. */
  givenUp: number;
}

export interface EndpointOptions {
  readonly url: string;
  readonly key: string;
  readonly patience: Patience;
  readonly stats: WebhookStats;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** A receiver of webhooks. */
export class Endpoint {
  readonly #options: EndpointOptions;
  #failures = 0;

  constructor(options: EndpointOptions) {
    this.#options = options;
  }

  get isGivenUp(): boolean {
    return this.#failures >= this.#options.patience.failures;
  }

  /** Posts a webhook until it is accepted, with the same id. False if the endpoint is given up or the server closes. */
  async deliver(webhook: { id: string; body: string }): Promise<boolean> {
    const { patience, stats, logger, signal, url } = this.#options;
    while (!signal.aborted && !this.isGivenUp) {
      const problem = await this.#post(webhook);
      if (problem === undefined) {
        this.#failures = 0;
        stats.delivered += 1;
        return true;
      }
      if (signal.aborted) return false;
      this.#failures += 1;
      stats.failed += 1;
      const facts = { endpoint: withoutSecrets(url), webhook: webhook.id, problem, failures: this.#failures };
      if (this.isGivenUp) {
        stats.givenUp += 1;
        logger({ level: "error", message: "a webhook endpoint is given up until the next start", ...facts });
        return false;
      }
      logger({ level: "warn", message: "a webhook was not taken", ...facts });
      const delay = Math.min(patience.mostMs, patience.firstMs * 2 ** (this.#failures - 1));
      await sleep(delay, undefined, { signal }).catch(() => {});
    }
    return false;
  }

  /** The problem of a failed delivery; undefined after a success. */
  async #post({ id, body }: { id: string; body: string }): Promise<string | undefined> {
    const { url, key, patience, signal } = this.#options;
    try {
      const response = await fetch(url, {
        method: "POST",
        headers: toSignedHeaders(key, { id, body, now: Date.now() }),
        body,
        redirect: "manual",
        signal: AbortSignal.any([signal, AbortSignal.timeout(patience.timeoutMs)]),
      });
      await response.body?.cancel();
      return response.ok ? undefined : `HTTP ${response.status}`;
    } catch (error) {
      const cause = error instanceof Error ? (error.cause ?? error) : error;
      return cause instanceof Error ? cause.message || cause.name : String(cause);
    }
  }
}

/** Drops the password and the query, which may hold a token. */
export function withoutSecrets(url: string): string {
  const { origin, pathname } = new URL(url);
  return origin + pathname;
}
