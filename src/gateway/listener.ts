import { timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { ModelRoute } from "../contract/process.ts";
import { Bodies } from "./body.ts";
import { type Answerer, forward } from "./forward.ts";
import { credentialsOf } from "./headers.ts";
import type { Ledger } from "./limits/ledger.ts";
import { guessWire, parseCall } from "./paths.ts";
import type { RateLimiter } from "./limits/rates.ts";
import type { RecordWriter } from "./record.ts";
import { Refusal, refuse } from "./refusal.ts";
import { RetryTrace } from "./retry-trace.ts";

export interface GatewayOptions {
  readonly routes: readonly ModelRoute[];
  /** The session's token. */
  readonly token: string;
  readonly answerer: Answerer;
  readonly records: RecordWriter;
  readonly ledger?: Ledger;
  readonly rates?: RateLimiter | undefined;
  /** The names by which agents reach it: `host:port`. */
  readonly hosts: readonly string[];
  readonly maxConnections?: number;
  /** The most bytes of all open requests together. */
  readonly mostBytes?: number | undefined;
  /** How long a request may take to arrive. */
  readonly requestMs?: number;
}

/** The gateway's HTTP server. It takes model calls with the session's token, and refuses everything else. */
export function createGateway(options: GatewayOptions): Server {
  const { records, answerer, ledger, rates, requestMs = 300_000 } = options;
  const retries = new RetryTrace();
  const bodies = new Bodies(options.mostBytes);
  const server = createServer({
    maxHeaderSize: 65_536,
    headersTimeout: Math.min(20_000, requestMs),
    requestTimeout: requestMs,
    keepAliveTimeout: 60_000,
    connectionsCheckingInterval: Math.min(5_000, requestMs),
  });
  const open = new Set<Socket>();
  const note = (status: number, why: string): unknown =>
    records.write({ type: "refused", time: Date.now(), status, why });

  server.on("connection", (socket: Socket) => {
    open.add(socket);
    socket.on("close", () => open.delete(socket));
    if (open.size > (options.maxConnections ?? 256)) answerRaw(socket, 503, "too many connections at once");
  });
  server.on("request", (request: IncomingMessage, response: ServerResponse) => {
    response.on("error", () => response.destroy());
    const wire = guessWire(request.url);
    const turnDown = (error: unknown): void => {
      if (error instanceof Refusal) note(error.status, error.code);
      if (response.headersSent || response.destroyed) return void response.destroy();
      refuse(response, wire, error);
      request.resume();
    };
    try {
      const call = admit(request, options);
      forward(call, request, response, { answerer, records, retries, bodies, ledger, rates }).catch(turnDown);
    } catch (error) {
      turnDown(error);
    }
  });
  server.on("upgrade", (_request: IncomingMessage, socket: Socket) => {
    note(403, "upgrade");
    answerRaw(socket, 403, "no other protocol than HTTP/1.1 passes here");
  });
  server.on("connect", (_request: IncomingMessage, socket: Socket) => {
    note(403, "connect");
    answerRaw(socket, 403, "this is no proxy; it takes model calls only");
  });
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
    if (!socket.writable) return void socket.destroy();
    const isSlow = error.code === "ERR_HTTP_REQUEST_TIMEOUT";
    note(isSlow ? 408 : 400, isSlow ? "too_slow" : "no_http");
    answerRaw(socket, isSlow ? 408 : 400, "this is no HTTP request that the gateway understands");
  });
  return server;
}

function admit(
  request: IncomingMessage,
  { routes, token, hosts }: GatewayOptions,
): NonNullable<ReturnType<typeof parseCall>> {
  const { host, "transfer-encoding": coding, "content-length": length } = request.headers;
  if (!hosts.includes((host ?? "").toLowerCase())) {
    throw new Refusal(403, "host", "sluice: this gateway has another name than the request's Host header.");
  }
  const isTwoWays = coding !== undefined && length !== undefined;
  if (isTwoWays || (coding !== undefined && coding.trim().toLowerCase() !== "chunked")) {
    throw new Refusal(400, "framing", "sluice: the request does not say clearly how long its body is.");
  }
  if (!credentialsOf(request, routes).some((given) => isEqual(given, token))) {
    throw new Refusal(
      401,
      "token",
      "sluice: the gateway takes the session's own token, which the agent has in the place of its key.",
    );
  }
  const call = parseCall(routes, request.method, request.url);
  if (call !== undefined) return call;
  throw new Refusal(
    403,
    "path",
    "sluice: only calls of a model pass the gateway: messages, responses, chat completions, generateContent, token counts and lists of models.",
  );
}

/** In constant time, so that the time tells nothing about the token. */
function isEqual(given: string, token: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(token)];
  return one.length === other.length && timingSafeEqual(one, other);
}

/** Answers on a connection without a parsed request, and closes it. */
function answerRaw(socket: Socket, status: number, why: string): void {
  if (socket.destroyed) return;
  socket.on("error", () => socket.destroy());
  const text = JSON.stringify({
    type: "error",
    error: { type: "invalid_request_error", message: `sluice: ${why}.` },
  });
  const head = [
    `HTTP/1.1 ${status} Refused`,
    "Connection: close",
    "Content-Type: application/json",
    "Sluice-Gateway: refused",
    `Content-Length: ${Buffer.byteLength(text)}`,
  ];
  socket.end(`${head.join("\r\n")}\r\n\r\n${text}`, () => socket.destroySoon());
}
