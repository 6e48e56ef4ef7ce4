import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import type { Context } from "hono";
import { SluiceError } from "../../contract/index.ts";
import type { Dialect, Frame } from "../../dialects/port.ts";
import type { EventLog } from "../../log/port.ts";
import type { Access } from "../access/access.ts";
import type { TokenWatch } from "../access/token-watch.ts";
import type { AppEnv, Logger } from "../context.ts";
import type { Meter } from "../meter.ts";
import type { Framing } from "./chunk.ts";
import type { FeedLimits } from "./feed.ts";
import { type FeedReader, Feeds } from "./feeds.ts";
import { createBodySink, createSocketSink, type Sink } from "./sink.ts";

export const PING_MS = 15_000;

export interface StreamRequest<State, View> {
  readonly session: string;
  readonly ordinal: number;
  readonly dialect: Dialect<State, View>;
  readonly view: View;
  readonly after: number;
  /** The last sequence of the stream, for a session that has ended. */
  readonly until?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Server-sent events if absent. */
  readonly format?: StreamFormat;
  /** Called when the stream opens, so never for HEAD. The returned function is called with the reason of its end. */
  readonly onOpen?: (() => (why: StreamEnd) => void) | undefined;
}

/** `ended`: the stream is complete. `gone`: its reader has left. `cut`: the server cut it; the reader may come back. */
export type StreamEnd = "ended" | "gone" | "cut";

/** The form of a stream on the wire. */
export interface StreamFormat {
  readonly framing: Framing;
  readonly headers: Readonly<Record<string, string>>;
  /** Sent before the first frame. */
  readonly prelude?: string;
  /** Sent during silence, to show that the stream is alive. */
  readonly ping?: string;
}

interface StreamOptions {
  readonly prelude?: string | undefined;
  readonly ping?: string | undefined;
  readonly access?: Access | undefined;
  readonly session?: string;
  readonly onClose?: (end: StreamEnd) => void;
}

interface OpenStream {
  readonly ping: string | undefined;
  end: StreamEnd;
}

/** Writes all event streams of the server. */
export class EventStreams {
  readonly #feeds: Feeds;
  readonly #meter: Meter;
  readonly #logger: Logger;
  readonly #pingMs: number;
  readonly #watch: TokenWatch | undefined;
  readonly #open = new Map<Sink, OpenStream>();
  #pulse: NodeJS.Timeout | undefined;

  constructor(options: {
    log: EventLog;
    meter: Meter;
    logger: Logger;
    pingMs?: number;
    watch?: TokenWatch;
    limits?: Partial<FeedLimits>;
  }) {
    this.#feeds = new Feeds(options.log, options.limits);
    this.#meter = options.meter;
    this.#logger = options.logger;
    this.#pingMs = options.pingMs ?? PING_MS;
    this.#watch = options.watch;
  }

  get feeds(): number {
    return this.#feeds.size;
  }

  /** Responds with the stream. The caller has checked the request before. */
  respond<State, View>(c: Context<AppEnv>, request: StreamRequest<State, View>): Response {
    const format = request.format ?? SSE_FORMAT;
    const access = c.get("access");
    return this.#answer(c, { ...format.headers, ...request.headers }, (sink) =>
      this.#startFeed(sink, request, access),
    );
  }

  /** Responds with server-sent events that `pump` writes. The sink may close at any time. */
  respondWith(c: Context<AppEnv>, pump: (sink: Sink) => Promise<void>): Response {
    const access = c.get("access");
    return this.#answer(c, SSE_HEADERS, (sink) => this.#start(sink, { ...SSE_FORMAT, access }, pump));
  }

  /** Cuts every stream, so that its reader reconnects to the next server. */
  cutAll(): void {
    for (const sink of this.#open.keys()) this.#cut(sink);
  }

  #answer(c: Context<AppEnv>, own: Readonly<Record<string, string>>, start: (sink: Sink) => void): Response {
    const headers = { ...own, ...c.get("cors") };
    if (c.req.method === "HEAD") return new Response(null, { headers });
    const outgoing = c.env?.outgoing;
    if (!outgoing) {
      const { sink, body } = createBodySink();
      start(sink);
      return new Response(body, { headers });
    }
    outgoing.writeHead(200, headers);
    outgoing.flushHeaders();
    start(createSocketSink(outgoing));
    return RESPONSE_ALREADY_SENT;
  }

  #startFeed<State, View>(sink: Sink, request: StreamRequest<State, View>, access?: Access): void {
    const onClose = request.onOpen?.();
    if (sink.closed) return onClose?.("gone");
    const { framing, prelude, ping } = request.format ?? SSE_FORMAT;
    const reader = this.#feeds.open({ ...request, framing }, request.after);
    const options = {
      prelude,
      ping,
      access,
      session: request.session,
      onClose: (end: StreamEnd) => {
        reader.close();
        onClose?.(end);
      },
    };
    this.#start(sink, options, () => this.#pump(sink, reader, request.until));
  }

  #start(sink: Sink, options: StreamOptions, pump: (sink: Sink) => Promise<void>): void {
    const { prelude, ping, access, session, onClose } = options;
    if (sink.closed) return;
    const stream: OpenStream = { ping, end: "gone" };
    this.#open.set(sink, stream);
    this.#meter.readers += 1;
    this.#pulse ??= this.#beat();
    const release = access && this.#watch?.hold(access, () => this.#cut(sink));
    sink.onClose(() => {
      release?.();
      this.#open.delete(sink);
      this.#meter.readers -= 1;
      onClose?.(stream.end);
      if (this.#open.size > 0) return;
      clearInterval(this.#pulse);
      this.#pulse = undefined;
    });
    if (prelude !== undefined) sink.write(prelude);
    pump(sink).catch((error: unknown) => {
      this.#cut(sink);
      // Not logged: the server stops, and its readers reconnect to the next one.
      if (error instanceof SluiceError && error.code === "draining") return;
      const line = { level: "error", message: "A stream broke", error: String(error) } as const;
      this.#logger(session === undefined ? line : { ...line, session });
    });
  }

  #cut(sink: Sink): void {
    const stream = this.#open.get(sink);
    if (stream) stream.end = "cut";
    sink.cut();
  }

  async #pump(sink: Sink, reader: FeedReader, until = Number.POSITIVE_INFINITY): Promise<void> {
    try {
      while (!sink.closed && reader.cursor < until) {
        const chunk = reader.take() ?? (await reader.next());
        if (chunk === undefined || sink.closed) return;
        if (chunk.bytes.length > 0) {
          this.#meter.frames += chunk.frames;
          this.#meter.bytes += chunk.bytes.length;
          if (!sink.write(chunk.bytes)) await sink.drained();
        }
        if (chunk.last) break;
      }
    } catch (error) {
      // The stream of a deleted session ends: a reconnect would find no session.
      if (!(error instanceof SluiceError && error.code === "session_not_found")) throw error;
    }
    // The socket has all remaining bytes, so the log is released.
    reader.close();
    const stream = this.#open.get(sink);
    if (stream && !sink.closed) stream.end = "ended";
    sink.end();
  }

  /** One timer for all streams. A reader that does not drain gets no ping. */
  #beat(): NodeJS.Timeout {
    const pulse = setInterval(() => {
      for (const [sink, { ping }] of this.#open) {
        if (ping !== undefined && sink.idle && !sink.closed) sink.write(ping);
      }
    }, this.#pingMs);
    pulse.unref();
    return pulse;
  }
}

/** `id:` is the dialect's own id, or else the sequence. A dialect's `null` leaves it out. */
export const sse: Framing = {
  id: "sse",
  frame(frame: Frame, sequence: number | undefined): string {
    const id = frame.id === null ? undefined : (frame.id ?? sequence);
    const event = frame.event === undefined ? "" : `event: ${frame.event}\n`;
    const data = hasLineBreak(frame.data) ? frame.data.replaceAll(/\r\n|\r|\n/g, "\ndata: ") : frame.data;
    return id === undefined ? `${event}data: ${data}\n\n` : `${event}id: ${id}\ndata: ${data}\n\n`;
  },
};

export const SSE_HEADERS: Readonly<Record<string, string>> = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
  connection: "keep-alive",
};

// The comment makes proxies send the headers, which some hold back until the first byte of the body.
const PRELUDE = ": sluice\nretry: 1000\n\n";
const PING = ": ping\n\n";

export const SSE_FORMAT: StreamFormat = { framing: sse, headers: SSE_HEADERS, prelude: PRELUDE, ping: PING };

function hasLineBreak(text: string): boolean {
  return text.includes("\n") || text.includes("\r");
}
