import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { parseHostPort } from "../hostPort.ts";
import { PRESENCE_PATH } from "../ingress.ts";
import { splice } from "../splice.ts";
import { dial, type DialOptions } from "./dial.ts";
import { forward } from "./forward.ts";
import { Refusal } from "./refusal.ts";

export interface ProxyOptions extends DialOptions {
  readonly maxConnections?: number;
  /** Of what it was told, for those who ask whether they would do the same. */
  readonly fingerprint: string;
  /** A guest says that it is there, for as long as the connection stands. */
  onGuest?(connection: Socket): void;
}

/** An HTTP proxy that knows its few hosts: CONNECT, and plain requests with a whole URL. */
export function createProxy(options: ProxyOptions): Server {
  const server = createServer({
    maxHeaderSize: 32_768,
    headersTimeout: 20_000,
    // A prompt may be long and its answer slow; only what comes before the body is hurried.
    requestTimeout: 0,
    keepAliveTimeout: 60_000,
    connectionsCheckingInterval: 5_000,
  });
  const open = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    open.add(socket);
    socket.on("close", () => open.delete(socket));
    if (open.size > (options.maxConnections ?? 512)) answerRaw(socket, tooMany());
  });
  server.on("connect", (request: IncomingMessage, socket: Socket, head: Buffer) => {
    void tunnel(request, socket, head, options);
  });
  server.on("request", (request: IncomingMessage, response: ServerResponse) => {
    if (request.url === PRESENCE_PATH) return greet(request, response, options);
    void answer(request, response, options);
  });
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
    if (socket.writable) answerRaw(socket, toClientError(error));
  });
  return server;
}

async function tunnel(
  request: IncomingMessage,
  socket: Socket,
  head: Buffer,
  options: DialOptions,
): Promise<void> {
  socket.on("error", () => socket.destroy());
  try {
    const { host, port } = parseHostPort(request.url ?? "") ?? {};
    if (host === undefined || port === undefined) throw notATarget(request.url);
    const upstream = await dial(host, port, options);
    if (socket.destroyed) return void upstream.destroy();
    socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
    if (head.length > 0) socket.unshift(head);
    splice(socket, upstream);
  } catch (error) {
    answerRaw(socket, toRefusal(error));
  }
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  options: DialOptions,
): Promise<void> {
  try {
    await forward(request, response, options);
  } catch (error) {
    if (response.headersSent || response.destroyed) return void response.destroy();
    const { status, message } = toRefusal(error);
    response.writeHead(status, { ...EXPLAINED, "content-length": Buffer.byteLength(message) });
    response.end(message);
    // What the client still sends of its body is not wanted.
    request.resume();
  }
}

function greet(request: IncomingMessage, response: ServerResponse, options: ProxyOptions): void {
  request.socket.setTimeout(0);
  response.writeHead(200, { "sluice-bridge": options.fingerprint, connection: "close" });
  response.write("welcome\n");
  options.onGuest?.(request.socket);
}

const EXPLAINED = { "content-type": "text/plain; charset=utf-8", "sluice-bridge": "refused" };

function answerRaw(socket: Socket, { status, message }: Refusal): void {
  if (socket.destroyed) return;
  socket.on("error", () => socket.destroy());
  const head = [`HTTP/1.1 ${status} ${REASONS[status] ?? "Refused"}`, "Connection: close"];
  for (const [name, value] of Object.entries(EXPLAINED)) head.push(`${name}: ${value}`);
  head.push(`Content-Length: ${Buffer.byteLength(message)}`, "", message);
  socket.end(head.join("\r\n"), () => socket.destroySoon());
}

const REASONS: Record<number, string> = {
  400: "Bad Request",
  403: "Forbidden",
  431: "Request Header Fields Too Large",
  502: "Bad Gateway",
  503: "Service Unavailable",
};

function toRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  return new Refusal(502, `sluice: the connection failed: ${(error as Error).message}\n`);
}

function notATarget(target: string | undefined): Refusal {
  return new Refusal(400, `sluice: CONNECT needs host:port, not ${JSON.stringify(target ?? "")}.\n`);
}

function tooMany(): Refusal {
  return new Refusal(
    503,
    "sluice: this sandbox has too many connections open at once; close some, then try again.\n",
  );
}

function toClientError(error: NodeJS.ErrnoException): Refusal {
  if (error.code === "HPE_HEADER_OVERFLOW") {
    return new Refusal(431, "sluice: the request's headers are larger than 32 KB.\n");
  }
  return new Refusal(
    400,
    `sluice: this is no HTTP request that the proxy understands (${error.code ?? error.message}).\n`,
  );
}
