import { createParser, type EventSourceMessage } from "eventsource-parser";
import type { SessionInfo, SluiceEvent } from "../contract/index.ts";
import { SluiceClientError, toStreamError } from "./errors.ts";
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
      if (follower.isKnown && error.code === "session_not_found") return;
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
  isKnown = false;

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
      if (!this.isKnown && this.sequence === undefined && oldest > 0) this.#options.onTrimmed?.(oldest);
      this.isKnown = true;
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
    const isFirst = !this.isKnown && this.sequence === this.#options.after;
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

/** Yields the events of one connection, and closes it when the iteration ends or `signal` aborts. */
export async function* readConnection<T = SluiceEvent>(
  open: (signal: AbortSignal) => Promise<Response>,
  options: {
    signal: AbortSignal;
    idleTimeoutMs: number;
    onOpen?: (response: Response) => void;
    /** A message as a value; an event of the log if absent. */
    parse?: (message: EventSourceMessage) => T;
  },
): AsyncGenerator<T, void> {
  const { signal, idleTimeoutMs, onOpen } = options;
  const parse = options.parse ?? (({ data }: EventSourceMessage) => parseEvent(data) as T);
  const connection = new AbortController();
  const forget = onAbort(signal, () => connection.abort(signal.reason));
  try {
    const response = await withDeadline(open(connection.signal), idleTimeoutMs);
    onOpen?.(response);
    yield* readEventStream(response, { idleTimeoutMs, parse });
  } catch (error) {
    if (error instanceof SluiceClientError) throw error;
    throw toStreamError("The connection was cut.", { cause: error });
  } finally {
    forget();
    connection.abort();
  }
}

/**
 * Yields the events of one SSE response. Silence of `idleTimeoutMs`, without an event or a ping, counts as a cut. The
 * time that the consumer takes does not count.
 */
async function* readEventStream<T>(
  response: Response,
  options: { idleTimeoutMs: number; parse: (message: EventSourceMessage) => T },
): AsyncGenerator<T, void> {
  const kind = response.headers.get("content-type") ?? "none";
  if (!response.body || !kind.startsWith("text/event-stream")) {
    throw toStreamError(`Expected an event stream, but the answer's content type is ${kind}.`, {
      retryable: false,
    });
  }
  const limit = <T>(read: Promise<T>): Promise<T> => withDeadline(read, options.idleTimeoutMs);
  for await (const batch of readBatches(response.body, limit))
    for (const message of batch) if (typeof message !== "string") yield options.parse(message);
}

/** Yields the server-sent events of a body in batches, one per chunk. Comments are strings. */
export async function* readBatches(
  body: ReadableStream<Uint8Array>,
  limit = <T>(read: Promise<T>): Promise<T> => read,
): AsyncGenerator<readonly (EventSourceMessage | string)[], void> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let arrived: (EventSourceMessage | string)[] = [];
  const keep = (message: EventSourceMessage | string): void => void arrived.push(message);
  const parser = createParser({ onEvent: keep, onComment: keep });
  try {
    for (;;) {
      const { done, value } = await limit(reader.read());
      if (done) return;
      parser.feed(decoder.decode(value, { stream: true }));
      const batch = arrived;
      arrived = [];
      yield batch;
    }
  } finally {
    // Not awaited, because a hanging connection never resolves it. The caller aborts the connection.
    void reader.cancel().catch(() => {});
  }
}

async function withDeadline<T>(work: Promise<T>, ms: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () => reject(toStreamError(`The connection was silent for ${ms} ms, without a ping.`)),
      ms,
    );
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

function parseEvent(data: string): SluiceEvent {
  try {
    return JSON.parse(data) as SluiceEvent;
  } catch (error) {
    throw toStreamError(`A frame is not JSON: ${data.slice(0, 200)}`, { cause: error, retryable: false });
  }
}

export const IDLE_TIMEOUT_MS = 40_000;
const FIRST_MS = 100;
const MOST_MS = 5_000;

/** The pause before a reconnect: 100 ms, doubling to 5 s, with jitter. */
export class Backoff {
  #tries = 0;

  /** Call after a success. */
  reset(): void {
    this.#tries = 0;
  }

  /** Resolves early when `signal` aborts. */
  async wait(signal: AbortSignal): Promise<void> {
    const ceiling = Math.min(MOST_MS, FIRST_MS * 2 ** this.#tries);
    this.#tries += 1;
    await sleep(ceiling * (0.5 + Math.random() / 2), signal);
  }
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const wake = () => {
      clearTimeout(timer);
      forget();
      resolve();
    };
    const timer = setTimeout(wake, ms);
    const forget = onAbort(signal, wake);
  });
}

const waiting = new WeakMap<AbortSignal, Set<() => void>>();

/** Calls back at the abort, with one listener per signal: Node warns of more than ten. Returns the removal of the call. */
function onAbort(signal: AbortSignal, call: () => void): () => void {
  const calls = waiting.get(signal) ?? new Set();
  if (!waiting.has(signal)) {
    waiting.set(signal, calls);
    signal.addEventListener("abort", () => calls.forEach((one) => one()), { once: true });
  }
  calls.add(call);
  return () => void calls.delete(call);
}
