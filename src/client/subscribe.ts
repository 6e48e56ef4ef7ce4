import type { SessionInfo, SluiceEvent } from "../contract/index.ts";
import { SluiceClientError } from "./errors.ts";
import { Backoff, IDLE_TIMEOUT_MS, readConnection } from "./stream.ts";
import { type EventPage, type EventView, pathOf, toViewQuery, type Transport } from "./transport.ts";

export interface SubscribeOptions extends EventView {
  /** The exclusive sequence to start from (default: the oldest event that is kept). */
  readonly after?: number | undefined;
  /** Called once with the oldest sequence of a trimmed log, if `after` is absent. */
  readonly onTrimmed?: (oldest: number) => void;
  /** Ends the iteration without an error. */
  readonly signal?: AbortSignal | undefined;
  /** The maximum silence of a connection; the server pings every 15 s. */
  readonly idleTimeoutMs?: number;
  /** Called at each cut, before the reconnect. */
  readonly onCut?: (error: SluiceClientError) => void;
}

/**
 * The events of a session after `after`, live, each exactly once and in order, across cuts and restarts of the server.
 * Ends with the session. Throws errors that a retry cannot solve: a wrong token, an unknown session, a lost cursor.
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

/** Keeps the position in a session's events from one connection to the next. */
class Follower {
  readonly #transport: Transport;
  readonly #session: string;
  readonly #options: SubscribeOptions;
  /** The last sequence that was yielded, or the one to start from. */
  sequence: number | undefined;
  /** Whether the server has answered for the session. From then on "not found" means that it was deleted. */
  met = false;

  constructor(transport: Transport, session: string, options: SubscribeOptions) {
    this.#transport = transport;
    this.#session = session;
    this.#options = options;
    this.sequence = options.after;
  }

  /** The events of one connection. */
  async *connect(outer: AbortSignal): AsyncGenerator<SluiceEvent, void> {
    const { idleTimeoutMs = IDLE_TIMEOUT_MS } = this.#options;
    const onOpen = (response: Response): void => {
      const oldest = Number(response.headers.get("sluice-oldest") ?? 0);
      if (!this.met && this.sequence === undefined && oldest > 0) this.#options.onTrimmed?.(oldest);
      this.met = true;
    };
    const open = (connection: AbortSignal): Promise<Response> => this.#open(connection);
    for await (const event of readConnection(open, { signal: outer, idleTimeoutMs, onOpen })) {
      if (event.sequence <= (this.sequence ?? 0)) continue;
      this.sequence = event.sequence;
      yield event;
    }
  }

  /** After a connection without events: whether the session has ended and has no event after the cursor. */
  async isOver(signal: AbortSignal): Promise<boolean> {
    const info = await this.#transport.json<SessionInfo>(pathOf(this.#session), { signal });
    if (!info.ended) return false;
    const query = { ...toViewQuery(this.#options), offset: this.sequence, limit: 1 };
    const page = await this.#transport.json<EventPage>(pathOf(this.#session, "events"), { query, signal });
    return page.events.length === 0;
  }

  #open(signal: AbortSignal): Promise<Response> {
    const isFirst = !this.met && this.sequence === this.#options.after;
    const isResumed = !isFirst && this.sequence !== undefined;
    return this.#transport.call(pathOf(this.#session, "events/sse"), {
      query: { ...toViewQuery(this.#options), ...(isFirst ? { offset: this.sequence } : {}) },
      headers: {
        accept: "text/event-stream",
        ...(isResumed ? { "last-event-id": String(this.sequence) } : {}),
      },
      signal,
    });
  }
}
