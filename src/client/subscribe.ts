import type { SessionInfo, SluiceEvent } from "../contract/index.ts";
import { Backoff } from "./backoff.ts";
import { SluiceClientError, toStreamError } from "./errors.ts";
import { type EventView, type EventPage, pathOf, toViewQuery } from "./paths.ts";
import { readEventStream, withDeadline } from "./sse.ts";
import type { Transport } from "./transport.ts";

export interface SubscribeOptions extends EventView {
  /** An exclusive sequence: the first event is the one behind it. The oldest that is kept, unless this says otherwise. */
  readonly after?: number | undefined;
  /** Told once where a log begins whose older events were trimmed away, if no `after` is given. */
  readonly onTrimmed?: (oldest: number) => void;
  /** Ends the iteration quietly. */
  readonly signal?: AbortSignal | undefined;
  /** How long a connection may be silent; the server pings every 15 s. */
  readonly idleTimeoutMs?: number;
  /** Told each time that the connection is lost, before it is made again. */
  readonly onCut?: (error: SluiceClientError) => void;
}

const IDLE_TIMEOUT_MS = 40_000;

/**
 * Every event of a session behind `after`, each exactly once and in order, live, across any number of cuts
 * and restarts of the server. Ends behind `session.ended` or when the session is deleted; throws what waiting
 * will not heal (a wrong token, an unknown session, a cursor that is gone).
 */
export async function* subscribe(
  transport: Transport,
  session: string,
  options: SubscribeOptions = {},
): AsyncGenerator<SluiceEvent, void> {
  const { signal: outer = new AbortController().signal } = options;
  const follower = new Follower(transport, session, options);
  const backoff = new Backoff();
  while (!outer.aborted) {
    const { sequence } = follower;
    try {
      for await (const event of follower.connect(outer)) {
        backoff.reset();
        yield event;
        if (outer.aborted) return;
        if (event.type === "session.ended" || event.type === "session.deleted") return;
      }
      if (follower.sequence === sequence && (await follower.isOver(outer))) return;
    } catch (error) {
      if (outer.aborted) return;
      if (!(error instanceof SluiceClientError)) throw error;
      if (follower.met && error.code === "session_not_found") return;
      if (!error.retryable) throw error;
      options.onCut?.(error);
    }
    await backoff.wait(outer);
  }
}

class Follower {
  readonly #transport: Transport;
  readonly #session: string;
  readonly #options: SubscribeOptions;
  /** The last sequence that was yielded, or the one to begin behind. */
  sequence: number | undefined;
  /** The server knew the session once, so "not found" means deleted from then on. */
  met = false;

  constructor(transport: Transport, session: string, options: SubscribeOptions) {
    this.#transport = transport;
    this.#session = session;
    this.#options = options;
    this.sequence = options.after;
  }

  /** What one connection brings. */
  async *connect(outer: AbortSignal): AsyncGenerator<SluiceEvent, void> {
    const connection = new AbortController();
    const hangUp = () => connection.abort(outer.reason);
    outer.addEventListener("abort", hangUp);
    const idleTimeoutMs = this.#options.idleTimeoutMs ?? IDLE_TIMEOUT_MS;
    try {
      const response = await withDeadline(this.#open(connection.signal), idleTimeoutMs);
      const oldest = Number(response.headers.get("sluice-oldest") ?? 0);
      if (!this.met && this.sequence === undefined && oldest > 0) this.#options.onTrimmed?.(oldest);
      this.met = true;
      for await (const event of readEventStream(response, { idleTimeoutMs })) {
        if (event.sequence <= (this.sequence ?? 0)) continue;
        this.sequence = event.sequence;
        yield event;
      }
    } catch (error) {
      if (error instanceof SluiceClientError) throw error;
      throw toStreamError("The connection was cut.", { cause: error });
    } finally {
      outer.removeEventListener("abort", hangUp);
      connection.abort();
    }
  }

  /** A stream that ended without a word: the cursor may already stand behind the end of an ended session. */
  async isOver(signal: AbortSignal): Promise<boolean> {
    const info = await this.#transport.json<SessionInfo>(pathOf(this.#session), { signal });
    if (!info.ended) return false;
    const query = { ...toViewQuery(this.#options), offset: this.sequence, limit: 1 };
    const page = await this.#transport.json<EventPage>(pathOf(this.#session, "events"), { query, signal });
    return page.events.length === 0;
  }

  #open(signal: AbortSignal): Promise<Response> {
    const first = !this.met && this.sequence === this.#options.after;
    const isNamed = !first && this.sequence !== undefined;
    return this.#transport.call(pathOf(this.#session, "events/sse"), {
      query: { ...toViewQuery(this.#options), ...(first ? { offset: this.sequence } : {}) },
      headers: {
        accept: "text/event-stream",
        ...(isNamed ? { "last-event-id": String(this.sequence) } : {}),
      },
      signal,
    });
  }
}
