import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { parseHostPort } from "../hostPort.ts";
import { PRESENCE_PATH } from "../ingress.ts";
import { splice } from "../splice.ts";
import { answerRaw, answerWith, toRefusal } from "./answer.ts";
import { dial } from "./dial.ts";
import { forward, type ForwardOptions } from "./forward.ts";
import type { Interceptor } from "./interceptor.ts";
import { Refusal } from "./refusal.ts";

export interface ProxyOptions extends ForwardOptions {
  /** Stands in for the hosts that lent secrets may go to. */
  readonly interceptor?: Interceptor | undefined;
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
    void answerWith(request, response, () => forward(request, response, options));
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
  options: ProxyOptions,
): Promise<void> {
  socket.on("error", () => socket.destroy());
  try {
    const { host, port } = parseHostPort(request.url ?? "") ?? {};
    if (host === undefined || port === undefined) throw notATarget(request.url);
    const { interceptor, lender } = options;
    const isMeant = (await lender?.for(host, port)) !== undefined;
    const upstream = await dial(host, port, options);
    if (socket.destroyed) return void upstream.destroy();
    socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
    if (head.length > 0) socket.unshift(head);
    if (interceptor === undefined || !isMeant) return splice(socket, upstream);
    await interceptor.take(socket, { host, port, socket: upstream });
  } catch (error) {
    answerRaw(socket, toRefusal(error));
  }
}

function greet(request: IncomingMessage, response: ServerResponse, options: ProxyOptions): void {
  request.socket.setTimeout(0);
  response.writeHead(200, { "sluice-bridge": options.fingerprint, connection: "close" });
  response.write("welcome\n");
  options.onGuest?.(request.socket);
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
