import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { isIP, type Socket } from "node:net";
import { namesPort } from "../allow-list.ts";
import { isLoopbackHost, parseHostPort, splice } from "../connection.ts";
import { isGateway } from "../gateway.ts";
import { PRESENCE_PATH } from "../protocol.ts";
import { toAddressKind } from "./dial.ts";
import { dialKnown, forward } from "./forward.ts";
import { Interceptor, type InterceptorOptions } from "./interceptor.ts";
import { answerRaw, answerWith, Refusal, toClientError, toRefusal } from "./refusal.ts";

interface ProxyOptions extends InterceptorOptions {
  /** Takes the connections to the model gateway. */
  readonly gateway?: Server | undefined;
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
  const interceptor = new Interceptor(options);
  const open = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    open.add(socket);
    socket.on("close", () => open.delete(socket));
    if (open.size > (options.maxConnections ?? 512)) answerRaw(socket, new Refusal(503, TOO_MANY));
  });
  server.on("connect", (request: IncomingMessage, socket: Socket, head: Buffer) => {
    void tunnel(request, socket, head, { ...options, interceptor });
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
  options: ProxyOptions & { readonly interceptor: Interceptor },
): Promise<void> {
  socket.on("error", () => socket.destroy());
  try {
    const { url = "" } = request;
    const { host, port } = parseHostPort(url) ?? {};
    if (host === undefined || port === undefined)
      throw new Refusal(400, `sluice: CONNECT needs host:port, not ${JSON.stringify(url)}.\n`);
    if (options.gateway !== undefined && isGateway(host, port)) {
      socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
      if (head.length > 0) socket.unshift(head);
      return void options.gateway.emit("connection", socket);
    }
    const { interceptor, lender } = options;
    const substitution = await lender?.for(host, port);
    const upstream = await dialKnown(host, port, options);
    if (socket.destroyed) return void upstream.destroy();
    socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
    if (head.length > 0) socket.unshift(head);
    // The list names such an address with its port, and no other site is there.
    const isInside = isLoopbackHost(host) || (isIP(host) !== 0 && toAddressKind(host) !== "public");
    if (substitution === undefined && isInside) return splice(socket, upstream);
    const isAnyProtocol = namesPort(options, host, port);
    await interceptor.take(socket, { host, port, socket: upstream, substitution, isAnyProtocol });
  } catch (error) {
    answerRaw(socket, toRefusal(error));
  }
}

/** Answers a guest, or an egress host that is about to start, and leaves the connection open. */
function greet(request: IncomingMessage, response: ServerResponse, options: ProxyOptions): void {
  request.socket.setTimeout(0);
  response.writeHead(200, { "sluice-egress": options.fingerprint, connection: "close" });
  response.write("welcome\n");
  options.onGuest?.(request.socket);
}

const TOO_MANY = "sluice: this sandbox has too many connections open at once; close some, then try again.\n";
