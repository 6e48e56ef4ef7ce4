import type { Catalog } from "../../../catalog/port.ts";
import type { EventType } from "../../../contract/index.ts";
import { WEBHOOK_EVENTS } from "../../../dialects/anthropic/webhook.ts";
import type { EventLog } from "../../../log/port.ts";
import { type Logger, stderrLogger } from "../../context.ts";
import { Cursors, CursorWalk } from "./cursors.ts";
import { Endpoint, PATIENCE, type Patience, type WebhookStats, withoutSecrets } from "./delivery.ts";

export interface WebhooksOptions {
  readonly log: EventLog;
  readonly catalog: Catalog;
  readonly urls: readonly string[];
  /** `whsec_` and base64. */
  readonly key: string;
  readonly patience?: Partial<Patience>;
  readonly logger?: Logger;
}

export interface Webhooks {
  /** Called after each commit. `events` is empty if the commit created a session. */
  committed(session: string, events: readonly { readonly type: EventType }[]): void;
  readonly stats: Readonly<WebhookStats>;
  /** The next start makes the deliveries that are still open. */
  close(): Promise<void>;
}

/** How many changed sessions are remembered; beyond that, all sessions are read. */
const MAX_MOVED = 10_000;
/** How often the active sessions are read: another process may write to the same log. */
const LOOK_MS = 10_000;

/** Reports events of sessions to the endpoints, at least once, from the log and without a queue. */
export function createWebhooks(options: WebhooksOptions): Webhooks {
  const stats: WebhookStats = { delivered: 0, failed: 0, givenUp: 0 };
  const abort = new AbortController();
  const { signal } = abort;
  const dispatchers = [...new Set(options.urls)].map(
    (url) => new Dispatcher(options, { url, stats, signal }),
  );
  const running = dispatchers.map((dispatcher) => dispatcher.run());
  const look = async (): Promise<void> => {
    for (const { id } of await options.log.active())
      for (const dispatcher of dispatchers) dispatcher.moved(id);
  };
  const { logger = stderrLogger } = options;
  const onFailure = (error: unknown): void =>
    logger({
      level: "warn",
      message: "webhooks could not read the sessions that other processes wrote to",
      error: String(error),
    });
  const timer = setInterval(() => void look().catch(onFailure), LOOK_MS);
  timer.unref();
  return {
    stats,
    committed(session, events) {
      if (events.length > 0 && !events.some(({ type }) => WEBHOOK_EVENTS.has(type))) return;
      for (const dispatcher of dispatchers) dispatcher.moved(session);
    },
    async close() {
      clearInterval(timer);
      abort.abort();
      await Promise.all(running);
    },
  };
}

/** Delivers the changed sessions to one endpoint, one after the other. */
class Dispatcher {
  readonly #options: WebhooksOptions;
  readonly #url: string;
  readonly #signal: AbortSignal;
  readonly #logger: Logger;
  readonly #cursors: Cursors;
  readonly #endpoint: Endpoint;
  readonly #walk: CursorWalk;
  readonly #moved = new Set<string>();
  #isBehind = true;
  #wake = (): void => {};

  constructor(
    options: WebhooksOptions,
    { url, stats, signal }: { url: string; stats: WebhookStats; signal: AbortSignal },
  ) {
    const { log, catalog, key, logger = stderrLogger } = options;
    this.#options = options;
    this.#url = url;
    this.#signal = signal;
    this.#logger = logger;
    this.#cursors = new Cursors(catalog, url);
    const patience = { ...PATIENCE, ...options.patience };
    this.#endpoint = new Endpoint({ url, key, patience, stats, logger, signal });
    this.#walk = new CursorWalk({ log, cursors: this.#cursors, endpoint: this.#endpoint, signal });
  }

  moved(session: string): void {
    if (this.#endpoint.isGivenUp) return;
    if (this.#moved.size < MAX_MOVED) this.#moved.add(session);
    else this.#isBehind = true;
    this.#wake();
  }

  async run(): Promise<void> {
    const { log } = this.#options;
    const startedAt = Date.now();
    let isSettled = false;
    while (!this.#signal.aborted && !this.#endpoint.isGivenUp) {
      try {
        if (!isSettled) await this.#cursors.settle(log, startedAt);
        isSettled = true;
        await this.#deliverAll();
        await this.#untilMoved();
      } catch (error) {
        if (this.#signal.aborted) return;
        const endpoint = withoutSecrets(this.#url);
        this.#logger({
          level: "error",
          message: "webhooks failed and are tried again later",
          endpoint,
          error: String(error),
        });
        this.#isBehind = true;
        await this.#untilMoved({ atMostMs: LOOK_MS });
      }
    }
    this.#moved.clear();
  }

  async #deliverAll(): Promise<void> {
    while (this.#isBehind || this.#moved.size > 0) {
      for (const session of this.#moved) {
        this.#moved.delete(session);
        if (!(await this.#walk.deliver(session))) return;
      }
      if (!this.#isBehind) continue;
      this.#isBehind = false;
      for await (const session of this.#cursors.behind(this.#options.log))
        if (!(await this.#walk.deliver(session))) return;
    }
  }

  #untilMoved(options: { atMostMs?: number } = {}): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.#signal.removeEventListener("abort", done);
        this.#wake = () => {};
        resolve();
      };
      const { atMostMs } = options;
      const timer = atMostMs === undefined ? undefined : setTimeout(done, atMostMs);
      // After a failure the wait ends by time only.
      if (atMostMs === undefined) this.#wake = done;
      this.#signal.addEventListener("abort", done);
      if (this.#signal.aborted || (atMostMs === undefined && this.#moved.size > 0)) done();
    });
  }
}
