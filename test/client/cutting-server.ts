import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A loopback server that serves a fixed log as SSE and cuts each connection at a given position. */
export interface CuttingServer {
  readonly url: string;
  readonly requests: readonly { path: string; lastEventId: string | undefined; offset: string | null }[];
  close(): Promise<void>;
}

export interface Wire {
  readonly events: readonly WireEvent[];
  /** The cut of the n-th connection (from 0); without one it is served to its end. */
  readonly cut?: (connection: number) => Cut | undefined;
  /** Answers instead of the stream. */
  readonly refuse?: (connection: number) => { status: number; body: unknown } | undefined;
  /** Repeats this many events before the cursor, as an at-least-once server would. */
  readonly repeat?: number;
  readonly ended?: boolean;
}

export interface WireEvent {
  readonly sequence: number;
  readonly type: string;
  readonly data: unknown;
}

/** Cuts after this count of bytes: resets the socket, ends it, or falls silent. */
export interface Cut {
  readonly bytes: number;
  readonly how: "reset" | "end" | "silence";
}

export async function startCuttingServer(wire: Wire): Promise<CuttingServer> {
  const requests: { path: string; lastEventId: string | undefined; offset: string | null }[] = [];
  let connection = 0;
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://x");
    if (!url.pathname.endsWith("/events/sse")) return answerRest(wire, url, response);
    const lastEventId = request.headers["last-event-id"] as string | undefined;
    requests.push({ path: url.pathname, lastEventId, offset: url.searchParams.get("offset") });
    serveStream(
      wire,
      connection++,
      Number(lastEventId ?? url.searchParams.get("offset") ?? 0),
      request,
      response,
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, requests, close: () => closeServer(server) };
}

export function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}

function serveStream(
  wire: Wire,
  n: number,
  after: number,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const refused = wire.refuse?.(n);
  if (refused) {
    response.writeHead(refused.status, { "content-type": "application/problem+json" });
    response.end(JSON.stringify(refused.body));
    return;
  }
  response.writeHead(200, { "content-type": "text/event-stream" });
  const from = after - (wire.repeat ?? 0);
  const frames = wire.events
    .filter((event) => event.sequence > from)
    .map((event) => `id: ${event.sequence}\ndata: ${JSON.stringify(event)}\n\n`);
  const bytes = Buffer.from(`: hello\n\n${frames.join(": ping\n\n")}`);
  const cut = wire.cut?.(n);
  if (!cut) {
    response.end(bytes);
    return;
  }
  const part = bytes.subarray(0, cut.bytes);
  if (cut.how === "end") {
    response.end(part);
    return;
  }
  // A reset drops unsent bytes, so headers and bytes have to leave first.
  if (part.length === 0) response.flushHeaders();
  response.write(part, () => {
    if (cut.how === "reset") setImmediate(() => request.socket.resetAndDestroy());
  });
}

function answerRest(wire: Wire, url: URL, response: ServerResponse): void {
  response.setHeader("content-type", "application/json");
  if (url.pathname.endsWith("/events")) {
    const after = Number(url.searchParams.get("offset") ?? 0);
    const limit = Number(url.searchParams.get("limit") ?? 100);
    const rest = wire.events.filter((event) => event.sequence > after);
    response.end(JSON.stringify({ events: rest.slice(0, limit), hasMore: rest.length > limit }));
    return;
  }
  response.end(JSON.stringify({ sessionId: "s", ended: wire.ended ?? true }));
}
