import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import type { Context } from "hono";
import { SluiceError } from "../contract/index.ts";
import type { Dialect, Frame } from "../dialects/port.ts";
import type { EventLog } from "../log/port.ts";
import type { Framing } from "./chunk.ts";
import type { AppEnv } from "./env.ts";
import type { FeedLimits } from "./feed.ts";
import { Feeds } from "./feeds.ts";
import type { Logger } from "./logger.ts";
import type { Meter } from "./meter.ts";
import type { FeedReader } from "./reader.ts";
import { createBodySink, createSocketSink, type Sink } from "./sink.ts";

export const PING_MS = 15_000;

export interface StreamRequest<State, View> {
  readonly session: string;
  readonly ordinal: number;
  readonly dialect: Dialect<State, View>;
  readonly view: View;
  readonly after: number;
  /** The stream ends here by itself: the log of an ended session grows no more. */
  readonly until?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Server-sent events unless another one is given. */
  readonly format?: StreamFormat;
  /** Called when the stream opens, which a HEAD never does; its answer is told once why the stream is over. */
  readonly onOpen?: (() => (why: StreamEnd) => void) | undefined;
}

/** It came to its end; its reader has gone; or we cut it, and the reader may come back. */
export type StreamEnd = "ended" | "gone" | "cut";

/** How a stream of frames stands on the wire. */
export interface StreamFormat {
  readonly framing: Framing;
  readonly headers: Readonly<Record<string, string>>;
  /** Leaves at once. */
  readonly prelude?: string;
  /** Says that the silence is only silence. */
  readonly ping?: string;
}

interface OpenStream {
  readonly ping: string | undefined;
  end: StreamEnd;
}

/** The one writer of event streams. */
export class EventStreams {
  readonly #feeds: Feeds;
  readonly #meter: Meter;
  readonly #logger: Logger;
  readonly #pingMs: number;
  readonly #open = new Map<Sink, OpenStream>();
  #pulse: NodeJS.Timeout | undefined;

  constructor(options: {
    log: EventLog;
    meter: Meter;
    logger: Logger;
    pingMs?: number;
    limits?: Partial<FeedLimits>;
  }) {
    this.#feeds = new Feeds(options.log, options.limits);
    this.#meter = options.meter;
    this.#logger = options.logger;
    this.#pingMs = options.pingMs ?? PING_MS;
  }

  get feeds(): number {
    return this.#feeds.size;
  }

  /** Answers with the stream; whatever can be refused has to be refused before. */
  respond<State, View>(c: Context<AppEnv>, request: StreamRequest<State, View>): Response {
    const format = request.format ?? SSE_FORMAT;
    const headers = { ...format.headers, ...c.get("cors"), ...request.headers };
    if (c.req.method === "HEAD") return new Response(null, { headers });
    const outgoing = c.env?.outgoing;
    if (!outgoing) {
      const { sink, body } = createBodySink();
      this.#start(sink, request);
      return new Response(body, { headers });
    }
    outgoing.writeHead(200, headers);
    outgoing.flushHeaders();
    this.#start(createSocketSink(outgoing), request);
    return RESPONSE_ALREADY_SENT;
  }

  /** Cuts every stream, so that its reader comes back to whoever serves next. */
  cutAll(): void {
    for (const sink of this.#open.keys()) this.#cut(sink);
  }

  #start<State, View>(sink: Sink, request: StreamRequest<State, View>): void {
    const onClose = request.onOpen?.();
    if (sink.closed) return onClose?.("gone");
    const { framing, prelude, ping } = request.format ?? SSE_FORMAT;
    const reader = this.#feeds.open({ ...request, framing }, request.after);
    const stream: OpenStream = { ping, end: "gone" };
    this.#open.set(sink, stream);
    this.#meter.readers += 1;
    this.#pulse ??= this.#beat();
    sink.onClose(() => {
      reader.close();
      this.#open.delete(sink);
      this.#meter.readers -= 1;
      onClose?.(stream.end);
      if (this.#open.size > 0) return;
      clearInterval(this.#pulse);
      this.#pulse = undefined;
    });
    if (prelude !== undefined) sink.write(prelude);
    this.#pump(sink, reader, request.until).catch((error: unknown) => {
      this.#cut(sink);
      // The server stops; its readers come back to the next one.
      if (error instanceof SluiceError && error.code === "draining") return;
      this.#logger({
        level: "error",
        message: "A stream broke",
        session: request.session,
        error: String(error),
      });
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
      // A deleted session's stream is over; there is nobody to come back to.
      if (!(error instanceof SluiceError && error.code === "session_not_found")) throw error;
    }
    // What is left to send needs the log no more.
    reader.close();
    const stream = this.#open.get(sink);
    if (stream && !sink.closed) stream.end = "ended";
    sink.end();
  }

  /** One clock for all: within each period every silent reader hears something, and a paused one costs nothing. */
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

/** `id:` is the sequence, or what the dialect says instead; `data:` one line. */
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

// Something has to leave at once, or some proxies hold the headers back.
const PRELUDE = ": sluice\nretry: 1000\n\n";
const PING = ": ping\n\n";

const SSE_FORMAT: StreamFormat = { framing: sse, headers: SSE_HEADERS, prelude: PRELUDE, ping: PING };

function hasLineBreak(text: string): boolean {
  return text.includes("\n") || text.includes("\r");
}
