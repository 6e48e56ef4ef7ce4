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
}

/** The one writer of server-sent events. */
export class EventStreams {
  readonly #feeds: Feeds;
  readonly #meter: Meter;
  readonly #logger: Logger;
  readonly #pingMs: number;
  readonly #open = new Set<Sink>();
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
    const headers = { ...SSE_HEADERS, ...c.get("cors"), ...request.headers };
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
    for (const sink of this.#open) sink.cut();
  }

  #start<State, View>(sink: Sink, request: StreamRequest<State, View>): void {
    if (sink.closed) return;
    const reader = this.#feeds.open({ ...request, framing: sse }, request.after);
    this.#open.add(sink);
    this.#meter.readers += 1;
    this.#pulse ??= this.#beat();
    sink.onClose(() => {
      reader.close();
      this.#open.delete(sink);
      this.#meter.readers -= 1;
      if (this.#open.size > 0) return;
      clearInterval(this.#pulse);
      this.#pulse = undefined;
    });
    this.#pump(sink, reader, request.until).catch((error: unknown) => {
      sink.cut();
      this.#logger({
        level: "error",
        message: "A stream broke",
        session: request.session,
        error: String(error),
      });
    });
  }

  async #pump(sink: Sink, reader: FeedReader, until = Number.POSITIVE_INFINITY): Promise<void> {
    sink.write(PRELUDE);
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
    sink.end();
  }

  /** One clock for all: within each period every silent reader hears something, and a paused one costs nothing. */
  #beat(): NodeJS.Timeout {
    const pulse = setInterval(() => {
      for (const sink of this.#open) if (sink.idle && !sink.closed) sink.write(PING);
    }, this.#pingMs);
    pulse.unref();
    return pulse;
  }
}

/** `id:` is the sequence, `data:` one line. */
export const sse: Framing = {
  id: "sse",
  frame(frame: Frame, id: number | undefined): string {
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

function hasLineBreak(text: string): boolean {
  return text.includes("\n") || text.includes("\r");
}
