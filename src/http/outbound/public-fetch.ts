import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { isIP, type Socket } from "node:net";
import { Readable } from "node:stream";
import { connect as connectTls } from "node:tls";
import { createBrotliDecompress, createUnzip } from "node:zlib";
import { dialPublic } from "../../sessions/publicHosts.ts";

const HANDSHAKE_MS = 20_000;

/** As `fetch`, to hosts of the internet alone: the address is checked where it is dialled, and no redirect is followed. */
export async function publicFetch(url: string, init: RequestInit = {}): Promise<Response> {
  // For its headers and its body as bytes, whatever form they were given in.
  const asked = new Request(url, init);
  const body = Buffer.from(await asked.arrayBuffer());
  const { signal } = init;
  signal?.throwIfAborted();
  const socket = await connectTo(new URL(url));
  if (signal?.aborted) socket.destroy();
  signal?.throwIfAborted();
  const { host, pathname, search } = new URL(url);
  const headers = {
    ...Object.fromEntries(asked.headers),
    host,
    connection: "close",
    "accept-encoding": "identity",
    ...(body.length > 0 && { "content-length": String(body.length) }),
  };
  return new Promise((resolve, reject) => {
    const sent = request({
      createConnection: () => socket,
      method: asked.method,
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

export async function connectTo({ protocol, hostname, port }: URL): Promise<Socket> {
  const host = hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "");
  const isPlain = protocol === "http:";
  const socket = await dialPublic(host, Number(port || (isPlain ? 80 : 443)));
  // Whoever uses it hears of its end; until then an error must not end the server.
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

/** Asked for no coding; some servers choose one all the same. */
function decode(incoming: IncomingMessage): Readable {
  const coding = incoming.headers["content-encoding"]?.trim().toLowerCase();
  const decoder =
    coding === "br" ? createBrotliDecompress() : /^(x-)?gzip$|^deflate$/.test(coding ?? "") && createUnzip();
  if (!decoder) return incoming;
  incoming.once("error", (error) => decoder.destroy(error));
  decoder.once("close", () => incoming.destroy());
  return incoming.pipe(decoder);
}
