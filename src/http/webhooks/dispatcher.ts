import type { EventLog } from "../../log/port.ts";
import type { Logger } from "../context.ts";
import type { Cursors } from "./cursors.ts";
import { type Endpoint, withoutSecrets } from "./delivery.ts";
import { CursorWalk, type Reporter, type Reports } from "./walk.ts";

/** How many changed sessions are remembered; beyond that, all sessions are read. */
const MAX_MOVED = 10_000;
/** The pause after a failure of the log or the catalog. */
const PAUSE_MS = 10_000;

export interface DispatcherOptions {
  readonly url: string;
  readonly log: EventLog;
  readonly cursors: Cursors;
  readonly endpoint: Endpoint;
  readonly reporter: Reporter;
  /** The time of the endpoint's registration. */
  readonly since: () => Promise<number>;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly reports?: Reports | undefined;
}

/** Delivers the changed sessions to one endpoint, one after the other. Endpoints do not wait for each other. */
export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #walk: CursorWalk;
  /** The sessions to look at, each with whether this server has written to it. */
  readonly #moved = new Map<string, boolean>();
  #since = 0;
  #isBehind = true;
  #wake = (): void => {};

  constructor(options: DispatcherOptions) {
    this.#options = options;
    const { log, cursors, endpoint, reporter, signal, reports } = options;
    const since = (): number => this.#since;
    this.#walk = new CursorWalk({ log, cursors, endpoint, reporter, since, signal, reports });
  }

  /** Looks at all sessions: another server may have left some unreported. */
  recheck(): void {
    this.#isBehind = true;
    this.#wake();
  }

  /** `types` are those of the new events; a new session has none. */
  moved(session: string, types?: readonly string[]): void {
    const { endpoint, reporter } = this.#options;
    if (endpoint.isGivenUp) return;
    if (reporter.session !== undefined && reporter.session !== session) return;
    const concerns =
      types?.length === 0 ? reporter.lifecycle : types?.some((type) => reporter.events.has(type));
    if (types && !concerns) return;
    const isOurs = types !== undefined || this.#moved.get(session) === true;
    if (this.#moved.size < MAX_MOVED) this.#moved.set(session, isOurs);
    else this.#isBehind = true;
    this.#wake();
  }

  async run(): Promise<void> {
    const { endpoint, signal, logger, url } = this.#options;
    while (!signal.aborted && !endpoint.isGivenUp) {
      try {
        if (this.#since === 0) this.#since = await this.#options.since();
        await this.#deliverAll();
        if (!endpoint.isGivenUp) await this.#untilMoved();
      } catch (error) {
        if (signal.aborted) break;
        const message = "webhooks failed and are tried again later";
        logger({ level: "error", message, endpoint: withoutSecrets(url), error: String(error) });
        this.#isBehind = true;
        await this.#untilMoved({ atMostMs: PAUSE_MS });
      }
    }
    this.#moved.clear();
  }

  async #deliverAll(): Promise<void> {
    const { log, cursors, reporter } = this.#options;
    const { tenant, session } = reporter;
    const scope = { since: this.#since, ...(tenant !== undefined && { tenant }) };
    while (this.#isBehind || this.#moved.size > 0) {
      for (const [session, isOurs] of this.#moved) {
        this.#moved.delete(session);
        if (!(await this.#walk.deliver(session, { isOurs }))) return;
      }
      if (!this.#isBehind) continue;
      this.#isBehind = false;
      const behind = session === undefined ? cursors.behind(log, scope) : [session];
      for await (const one of behind) if (!(await this.#walk.deliver(one, { isOurs: false }))) return;
    }
  }

  #untilMoved(options: { atMostMs?: number } = {}): Promise<void> {
    const { signal } = this.#options;
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        signal.removeEventListener("abort", done);
        this.#wake = () => {};
        resolve();
      };
      const { atMostMs } = options;
      const timer = atMostMs === undefined ? undefined : setTimeout(done, atMostMs);
      // After a failure the wait ends by time only.
      if (atMostMs === undefined) this.#wake = done;
      signal.addEventListener("abort", done);
      if (signal.aborted || (atMostMs === undefined && this.#moved.size > 0)) done();
    });
  }
}
