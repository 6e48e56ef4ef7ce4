import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { isIP, type Socket } from "node:net";
import { isLoopbackHost, parseHostPort, peek, splice } from "../connection.ts";
import { PRESENCE_PATH } from "../protocol.ts";
import { TLS_HANDSHAKE, toServerName } from "./client-hello.ts";
import { toAddressKind } from "./dial.ts";
import { dialKnown, forward, type ForwardOptions } from "./forward.ts";
import type { Interceptor } from "./interceptor.ts";
import { answerRaw, answerWith, Refusal, toRefusal } from "./refusal.ts";

interface ProxyOptions extends ForwardOptions {
  /** Takes the connections to hosts that lent secrets may go to. */
  readonly interceptor?: Interceptor | undefined;
  readonly maxConnections?: number;
  /** The fingerprint of its settings, by which another egress host sees that it is not needed. */
  readonly fingerprint: string;
  /** Gets the connection that a guest keeps open while it runs. */
  onGuest?(connection: Socket): void;
}

/** The HTTP proxy of the allowed hosts. It takes CONNECT, and plain requests with a whole URL. */
export function createProxy(options: ProxyOptions): Server {
  const server = createServer({
    maxHeaderSize: 32_768,
    headersTimeout: 20_000,
    // A prompt may be long and its answer slow; only the head has a time limit.
    requestTimeout: 0,
    keepAliveTimeout: 60_000,
    connectionsCheckingInterval: 5_000,
  });
  const open = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    open.add(socket);
    socket.on("close", () => open.delete(socket));
    if (open.size > (options.maxConnections ?? 512)) answerRaw(socket, new Refusal(503, TOO_MANY));
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
    const { url = "" } = request;
    const { host, port } = parseHostPort(url) ?? {};
    if (host === undefined || port === undefined)
      throw new Refusal(400, `sluice: CONNECT needs host:port, not ${JSON.stringify(url)}.\n`);
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

/** Whether a client asks by TLS for another server than the allowed one, as many sites share an address. */
async function isFronted(client: Socket, upstream: Socket, host: string): Promise<boolean> {
  const isPrivate = isLoopbackHost(host) || (isIP(host) !== 0 && toAddressKind(host) !== "public");
  if (isPrivate) return false;
  upstream.on("error", () => upstream.destroy());
  const expected = isIP(host) === 0 ? host : "";
  return peek(client, upstream, {
    decide: (bytes) => {
      if (bytes[0] !== TLS_HANDSHAKE) return false;
      const name = toServerName(bytes);
      return name === undefined ? undefined : name !== expected;
    },
    otherwise: false,
  });
}

/** The fatal TLS alert `unrecognized_name`, which clients name in their error. */
const UNRECOGNIZED_NAME = Buffer.from([0x15, 3, 3, 0, 2, 2, 112]);

/** Answers a guest, or an egress host that is about to start, and leaves the connection open. */
function greet(request: IncomingMessage, response: ServerResponse, options: ProxyOptions): void {
  request.socket.setTimeout(0);
  response.writeHead(200, { "sluice-egress": options.fingerprint, connection: "close" });
  response.write("welcome\n");
  options.onGuest?.(request.socket);
}

const TOO_MANY = "sluice: this sandbox has too many connections open at once; close some, then try again.\n";

function toClientError(error: NodeJS.ErrnoException): Refusal {
  if (error.code === "HPE_HEADER_OVERFLOW") {
    return new Refusal(431, "sluice: the request's headers are larger than 32 KB.\n");
  }
  const text = `sluice: this is no HTTP request that the proxy understands (${error.code ?? error.message}).\n`;
  return new Refusal(400, text);
}
