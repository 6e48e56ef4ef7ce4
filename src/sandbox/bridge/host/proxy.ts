import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { isIP, type Socket } from "node:net";
import { isLoopbackHost, parseHostPort } from "../hostPort.ts";
import { PRESENCE_PATH } from "../ingress.ts";
import { splice } from "../splice.ts";
import { answerRaw, answerWith, toRefusal } from "./answer.ts";
import { toAddressKind } from "./address.ts";
import { TLS_HANDSHAKE, toServerName } from "./clientHello.ts";
import { dialKnown, forward, type ForwardOptions } from "./forward.ts";
import type { Interceptor } from "./interceptor.ts";
import { peek } from "./peek.ts";
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
    const substitution = await lender?.for(host, port);
    const upstream = await dialKnown(host, port, options);
    if (socket.destroyed) return void upstream.destroy();
    socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
    if (head.length > 0) socket.unshift(head);
    if (interceptor !== undefined && substitution !== undefined) {
      return await interceptor.take(socket, { host, port, socket: upstream, substitution });
    }
    if (await isFronted(socket, upstream, host)) {
      socket.end(UNRECOGNIZED_NAME);
      return void upstream.destroy();
    }
    splice(socket, upstream);
  } catch (error) {
    answerRaw(socket, toRefusal(error));
  }
}

/** TLS for another server than the one that was asked for: many sites share an address, and not all of them are allowed. */
async function isFronted(client: Socket, upstream: Socket, host: string): Promise<boolean> {
  const isPlace = isLoopbackHost(host) || (isIP(host) !== 0 && toAddressKind(host) !== "public");
  if (isPlace) return false;
  upstream.on("error", () => upstream.destroy());
  const expected = isIP(host) === 0 ? host : "";
  return peek(client, upstream, {
    decide: (words) => {
      if (words[0] !== TLS_HANDSHAKE) return false;
      const name = toServerName(words);
      return name === undefined ? undefined : name !== expected;
    },
    otherwise: false,
  });
}

/** A fatal alert of TLS, which clients name in their error. */
const UNRECOGNIZED_NAME = Buffer.from([0x15, 3, 3, 0, 2, 2, 112]);

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
