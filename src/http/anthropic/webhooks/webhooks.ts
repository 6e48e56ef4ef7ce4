import type { Catalog } from "../../../catalog/port.ts";
import type { EventType } from "../../../contract/index.ts";
import { WEBHOOK_EVENTS } from "../../../dialects/anthropic/webhook.ts";
import type { EventLog } from "../../../log/port.ts";
import { type Logger, stderrLogger } from "../../logger.ts";
import { Courier } from "./courier.ts";
import { Cursors } from "./cursors.ts";
import { Endpoint, PATIENCE, type Patience, type WebhookStats, withoutSecrets } from "./endpoint.ts";

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
  /** Something of these types was committed; nothing at all where a session was made. */
  committed(session: string, events: readonly { readonly type: EventType }[]): void;
  readonly stats: Readonly<WebhookStats>;
  /** Lets go; what was not taken yet is told after the next start. */
  close(): Promise<void>;
}

/** How many sessions are remembered as worth a look; behind that, all of them are looked through again. */
const MOST_MOVED = 10_000;
/** How often sessions that run are looked at without being told to: another process may write to the same log. */
const LOOK_MS = 10_000;

/** Tells the endpoints what happens to the sessions: at least once, from the log alone, with nothing queued. */
export function createWebhooks(options: WebhooksOptions): Webhooks {
  const stats: WebhookStats = { delivered: 0, failed: 0, givenUp: 0 };
  const abort = new AbortController();
  const { signal } = abort;
  const rounds = [...new Set(options.urls)].map((url) => new Round(options, { url, stats, signal }));
  const running = rounds.map((round) => round.run());
  const look = async (): Promise<void> => {
    for (const { id } of await options.log.active()) for (const round of rounds) round.moved(id);
  };
  const { logger = stderrLogger } = options;
  const onUnseen = (error: unknown): void =>
    logger({ level: "warn", message: "webhooks could not look for what others wrote", error: String(error) });
  const timer = setInterval(() => void look().catch(onUnseen), LOOK_MS);
  timer.unref();
  return {
    stats,
    committed(session, events) {
      if (events.length > 0 && !events.some(({ type }) => WEBHOOK_EVENTS.has(type))) return;
      for (const round of rounds) round.moved(session);
    },
    async close() {
      clearInterval(timer);
      abort.abort();
      await Promise.all(running);
    },
  };
}

/** One endpoint's way through the sessions that have moved, one after the other. */
class Round {
  readonly #options: WebhooksOptions;
  readonly #url: string;
  readonly #signal: AbortSignal;
  readonly #logger: Logger;
  readonly #cursors: Cursors;
  readonly #endpoint: Endpoint;
  readonly #courier: Courier;
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
    this.#courier = new Courier({ log, cursors: this.#cursors, endpoint: this.#endpoint, signal });
  }

  moved(session: string): void {
    if (this.#endpoint.isGivenUp) return;
    if (this.#moved.size < MOST_MOVED) this.#moved.add(session);
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
        await this.#visitAll();
        await this.#untilMoved();
      } catch (error) {
        if (this.#signal.aborted) return;
        const endpoint = withoutSecrets(this.#url);
        this.#logger({
          level: "error",
          message: "webhooks are looked at again later",
          endpoint,
          error: String(error),
        });
        this.#isBehind = true;
        await this.#untilMoved({ atMostMs: LOOK_MS });
      }
    }
    this.#moved.clear();
  }

  async #visitAll(): Promise<void> {
    while (this.#isBehind || this.#moved.size > 0) {
      for (const session of this.#moved) {
        this.#moved.delete(session);
        if (!(await this.#courier.visit(session))) return;
      }
      if (!this.#isBehind) continue;
      this.#isBehind = false;
      for await (const session of this.#cursors.behind(this.#options.log))
        if (!(await this.#courier.visit(session))) return;
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
      // After a failure of our own only time helps.
      if (atMostMs === undefined) this.#wake = done;
      this.#signal.addEventListener("abort", done);
      if (this.#signal.aborted || (atMostMs === undefined && this.#moved.size > 0)) done();
    });
  }
}
