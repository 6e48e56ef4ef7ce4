import { setTimeout as sleep } from "node:timers/promises";
import type { WebhookDelivery } from "../../contract/index.ts";
import type { Logger } from "../context.ts";
import { toSignedHeaders } from "./signature.ts";

export interface Patience {
  /** The delay after the first failure; each further one doubles it. */
  readonly firstMs: number;
  readonly mostMs: number;
  /** After so many failures in a row the endpoint is given up. */
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

/** One message to an endpoint. The same event gives the same id and body. */
export interface Message {
  readonly id: string;
  readonly body: string;
  readonly type: string;
  readonly session?: string;
}

/** The failures of an endpoint since its last success. */
export interface Trouble {
  readonly failures: number;
  readonly problem: string;
  /** The time of the next attempt. */
  readonly nextAt: number;
  readonly isGivenUp: boolean;
}

export interface EndpointOptions {
  readonly url: string;
  readonly key: string;
  readonly patience: Patience;
  readonly stats: WebhookStats;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>;
  /** The failures before this start of the server. */
  readonly trouble?: Pick<Trouble, "failures" | "nextAt"> | undefined;
  /** Stores the failures; undefined after a success. */
  readonly note?: (trouble: Trouble | undefined) => Promise<void>;
}

/** How many attempts are remembered. */
const MAX_ATTEMPTS = 100;
/** The answer of a receiver that wants no more messages, by Standard Webhooks. */
const GONE = "HTTP 410";

/** A receiver of webhooks. */
export class Endpoint {
  readonly #options: EndpointOptions;
  readonly #attempts: WebhookDelivery[] = [];
  #failures: number;
  #nextAt: number;
  #isGivenUp = false;

  constructor(options: EndpointOptions) {
    this.#options = options;
    this.#failures = options.trouble?.failures ?? 0;
    this.#nextAt = options.trouble?.nextAt ?? 0;
  }

  get isGivenUp(): boolean {
    return this.#isGivenUp;
  }

  /** The newest attempts, newest first. */
  get attempts(): readonly WebhookDelivery[] {
    return this.#attempts;
  }

  /** Posts a message until it is accepted, with the same id. False if the endpoint is given up or the server closes. */
  async deliver(message: Message): Promise<boolean> {
    const { stats, signal, note } = this.#options;
    while (!signal.aborted && !this.#isGivenUp) {
      await this.#pause();
      if (signal.aborted) return false;
      const problem = await this.attempt(message);
      if (problem === undefined) {
        stats.delivered += 1;
        if (this.#failures > 0) await note?.(undefined);
        this.#failures = 0;
        this.#nextAt = 0;
        return true;
      }
      if (signal.aborted) return false;
      await this.#fail(message, problem);
    }
    return false;
  }

  /** Posts a message once. Returns the problem of a failed delivery; undefined after a success. */
  async attempt(message: Message): Promise<string | undefined> {
    const problem = await this.#post(message);
    const { id, type, session } = message;
    const facts = { id, type, ...(session !== undefined && { session }), at: Date.now() };
    const outcome = problem === undefined ? { delivered: true } : { delivered: false, problem };
    this.#attempts.unshift({ ...facts, ...outcome });
    if (this.#attempts.length > MAX_ATTEMPTS) this.#attempts.pop();
    return problem;
  }

  async #fail(message: Message, problem: string): Promise<void> {
    const { patience, stats, logger, url, note } = this.#options;
    this.#failures += 1;
    stats.failed += 1;
    this.#isGivenUp = this.#failures >= patience.failures || problem === GONE;
    this.#nextAt = Date.now() + Math.min(patience.mostMs, patience.firstMs * 2 ** (this.#failures - 1));
    const trouble = { failures: this.#failures, problem, nextAt: this.#nextAt, isGivenUp: this.#isGivenUp };
    const facts = { endpoint: withoutSecrets(url), webhook: message.id, problem, failures: this.#failures };
    if (this.#isGivenUp) {
      stats.givenUp += 1;
      logger({ level: "error", message: "a webhook endpoint is given up", ...facts });
    } else logger({ level: "warn", message: "a webhook was not taken", ...facts });
    await note?.(trouble);
  }

  async #pause(): Promise<void> {
    const { patience, signal } = this.#options;
    // A clock that was set back does not prolong the wait.
    const ms = Math.min(patience.mostMs, this.#nextAt - Date.now());
    if (ms > 0) await sleep(ms, undefined, { signal }).catch(() => {});
  }

  async #post({ id, body }: Message): Promise<string | undefined> {
    const { url, key, patience } = this.#options;
    const signal = AbortSignal.any([this.#options.signal, AbortSignal.timeout(patience.timeoutMs)]);
    const headers = toSignedHeaders(key, { id, body, now: Date.now() });
    const post = async (): Promise<string | undefined> => {
      const init = { method: "POST", headers, body, redirect: "manual", signal } as const;
      const response = await this.#options.fetch(url, init);
      await response.body?.cancel();
      return response.ok ? undefined : `HTTP ${response.status}`;
    };
    try {
      return await untilAborted(post(), signal);
    } catch (error) {
      const cause = error instanceof Error ? (error.cause ?? error) : error;
      return cause instanceof Error ? cause.message || cause.name : String(cause);
    }
  }
}

/** Fails when the signal aborts, even if the work ignores the signal, as the dialling of a host does. */
function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason as Error);
    signal.addEventListener("abort", abort, { once: true });
    if (signal.aborted) abort();
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}

/** Drops the password and the query, which may hold a token. */
export function withoutSecrets(url: string): string {
  const { origin, pathname } = new URL(url);
  return origin + pathname;
}
