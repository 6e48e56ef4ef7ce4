import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import { type AddressInfo, isIP, type Socket } from "node:net";
import { pipeline, Readable } from "node:stream";
import { connect as connectTls } from "node:tls";
import { createBrotliDecompress, createUnzip } from "node:zlib";
import { dialPublic } from "../sessions/hosts.ts";

const HANDSHAKE_MS = 20_000;

/** `fetch` to hosts of the internet alone; the address is checked as it is dialled. Redirects are not followed. */
export async function publicFetch(url: string, init: RequestInit = {}): Promise<Response> {
  // `Request` normalises the headers and the body.
  const normalised = new Request(url, init);
  const body = Buffer.from(await normalised.arrayBuffer());
  const { signal } = init;
  signal?.throwIfAborted();
  const socket = await connectTo(new URL(url));
  if (signal?.aborted) socket.destroy();
  signal?.throwIfAborted();
  const { host, pathname, search } = new URL(url);
  const headers = {
    ...Object.fromEntries(normalised.headers),
    host,
    connection: "close",
    "accept-encoding": "identity",
    ...(body.length > 0 && { "content-length": String(body.length) }),
  };
  return new Promise((resolve, reject) => {
    const sent = request({
      createConnection: () => socket,
      method: normalised.method,
      path: pathname + search,
      headers,
      ...(signal && { signal }),
    });
    sent.once("error", reject);
    sent.once("response", (incoming) => {
      try {
        resolve(toResponse(incoming));
      } catch (error) {
        sent.destroy();
        reject(error as Error);
      }
    });
    sent.end(body);
  });
}

async function connectTo({ protocol, hostname, port }: URL): Promise<Socket> {
  const host = hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "");
  const isPlain = protocol === "http:";
  const socket = await dialPublic(host, Number(port || (isPlain ? 80 : 443)));
  // An error without a listener would crash the server. The user of the socket learns of it by the close.
  socket.on("error", () => {});
  if (isPlain) return socket;
  const secure = connectTls({ socket, ...(isIP(host) === 0 && { servername: host }) });
  secure.on("error", () => {});
  try {
    await once(secure, "secureConnect", { signal: AbortSignal.timeout(HANDSHAKE_MS) });
    return secure;
  } catch (error) {
    secure.destroy();
    throw error;
  }
}

const BODILESS: ReadonlySet<number> = new Set([204, 205, 304]);

function toResponse(incoming: IncomingMessage): Response {
  const status = incoming.statusCode ?? 0;
  const headers = new Headers();
  const { rawHeaders } = incoming;
  for (let at = 0; at < rawHeaders.length; at += 2)
    headers.append(rawHeaders[at] ?? "", rawHeaders[at + 1] ?? "");
  if (BODILESS.has(status)) {
    incoming.resume();
    return new Response(null, { status, headers });
  }
  return new Response(Readable.toWeb(decode(incoming)) as ReadableStream, { status, headers });
}

/** Some servers compress although the request asks for `identity`. */
function decode(incoming: IncomingMessage): Readable {
  const coding = incoming.headers["content-encoding"]?.trim().toLowerCase();
  const decoder =
    coding === "br" ? createBrotliDecompress() : /^(x-)?gzip$|^deflate$/.test(coding ?? "") && createUnzip();
  if (!decoder) return incoming;
  incoming.once("error", (error) => decoder.destroy(error));
  decoder.once("close", () => incoming.destroy());
  return incoming.pipe(decoder);
}

export interface PublicProxy {
  /** Includes the password. */
  readonly url: string;
  close(): Promise<void>;
}

const CHALLENGE = { "proxy-authenticate": 'Basic realm="sluice"' };

/**
 * A proxy to the internet for a program that opens its own connections, such as git. It checks the address of every
 * connection, redirects included. A refused host and a missing one get the same response.
 */
export async function openPublicProxy(): Promise<PublicProxy> {
  const password = randomBytes(24).toString("hex");
  const expected = `Basic ${Buffer.from(`sluice:${password}`).toString("base64")}`;
  const isOurs = ({ headers }: IncomingMessage): boolean => headers["proxy-authorization"] === expected;
  const server = createServer((incoming, outgoing) => {
    if (!isOurs(incoming)) return void outgoing.writeHead(407, CHALLENGE).end();
    forward(incoming, outgoing).catch(() => {
      if (!outgoing.headersSent) outgoing.writeHead(502);
      outgoing.end();
    });
  });
  const tunnels = new Set<Socket>();
  server.on("connect", (incoming: IncomingMessage, socket: Socket, head: Buffer) => {
    socket.on("error", () => socket.destroy());
    if (!isOurs(incoming))
      return void socket.end(
        `HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: ${CHALLENGE["proxy-authenticate"]}\r\n\r\n`,
      );
    tunnel(incoming, socket, head).then(
      (far) => {
        for (const side of [far, socket]) {
          tunnels.add(side);
          side.once("close", () => tunnels.delete(side));
        }
      },
      () => socket.end("HTTP/1.1 502 Bad Gateway\r\n\r\n"),
    );
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://sluice:${password}@127.0.0.1:${port}`,
    async close() {
      for (const socket of tunnels) socket.destroy();
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

async function tunnel({ url = "" }: IncomingMessage, socket: Socket, head: Buffer): Promise<Socket> {
  // The client speaks TLS through the tunnel, so this side opens plain TCP.
  const { hostname, port } = new URL(`http://${url}`);
  const far = await connectTo(new URL(`http://${hostname}:${port || 443}`));
  far.on("error", () => socket.destroy());
  socket.write("HTTP/1.1 200 Connection Established\r\n\r\n");
  far.write(head);
  pipeline(far, socket, () => {});
  pipeline(socket, far, () => {});
  return far;
}

async function forward(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const url = new URL(incoming.url ?? "");
  if (url.protocol !== "http:") return void outgoing.writeHead(502).end();
  const socket = await connectTo(url);
  const { "proxy-authorization": _, "proxy-connection": __, connection: ___, ...headers } = incoming.headers;
  const sent = request({
    createConnection: () => socket,
    method: incoming.method,
    path: url.pathname + url.search,
    headers: { ...headers, host: url.host, connection: "close" },
  });
  outgoing.once("close", () => sent.destroy());
  pipeline(incoming, sent, () => {});
  const [answer] = (await once(sent, "response")) as [IncomingMessage];
  const { connection: ____, "keep-alive": _____, ...passed } = answer.headers;
  outgoing.writeHead(answer.statusCode ?? 502, passed);
  pipeline(answer, outgoing, () => {});
}
