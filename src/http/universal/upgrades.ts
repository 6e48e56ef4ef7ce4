import { type IncomingMessage, type Server, STATUS_CODES } from "node:http";
import { type Duplex, Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ReadableStream } from "node:stream/web";
import type { Hono } from "hono";
import type { AppEnv, Upgrade } from "../context.ts";

/** The part of an app that answers requests. */
type Answering = Pick<Hono<AppEnv>, "fetch">;

/** The paths whose programs may speak WebSocket. */
const PORTS = /^\/v1\/sessions\/[^/]+\/ports\/\d+(?:[/?]|$)/;

/**
 * Gives WebSocket requests for a port of a sandbox to the app, with their socket: they pass the same checks as every
 * request. Any other upgrade goes on as the plain request that it is without the header, as Node treats it where nobody
 * listens to upgrades. The returned function ends the upgraded connections.
 */
export function acceptUpgrades(server: Server, open: () => Promise<Answering>): () => void {
  const sockets = new Set<Duplex>();
  server.on("upgrade", (incoming: IncomingMessage, socket: Duplex, head: Buffer) => {
    const isSocket = incoming.headers.upgrade?.toLowerCase() === "websocket" && incoming.method === "GET";
    if (!isSocket || !PORTS.test(incoming.url ?? "")) return withdraw(server, incoming, { socket, head });
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    socket.on("error", () => socket.destroy());
    open()
      .then((app) => answer(app, incoming, { socket, head }))
      .catch(() => socket.destroy());
  });
  return () => {
    for (const socket of sockets) socket.destroy();
  };
}

async function answer(app: Answering, incoming: IncomingMessage, upgrade: Upgrade): Promise<void> {
  const { socket } = upgrade;
  const gone = new AbortController();
  socket.once("close", () => gone.abort());
  const headers = new Headers();
  for (const [name, values = []] of Object.entries(incoming.headersDistinct))
    for (const value of values) headers.append(name, value);
  const url = new URL(incoming.url ?? "/", `http://${incoming.headers.host ?? "localhost"}`);
  const response = await app.fetch(new Request(url, { headers, signal: gone.signal }), { incoming, upgrade });
  if (response.headers.has("x-hono-already-sent")) return;
  const lines = [...response.headers].filter(([name]) => name !== "connection" && name !== "keep-alive");
  socket.write(toHead(response.status, [...lines, ["connection", "close"]]));
  if (!response.body) return void socket.end();
  await pipeline(Readable.fromWeb(response.body as ReadableStream), socket);
}

/** The status line and the headers of a response, as bytes. */
export function toHead(status: number, headers: readonly (readonly [name: string, value: string])[]): Buffer {
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.from(`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n${lines.join("")}\r\n`, "latin1");
}

/** Headers that ask for another protocol. */
const ASKING = /^(?:connection|upgrade|http2-settings)$/i;

/** Gives the request to the server again, without the wish for another protocol. */
function withdraw(server: Server, incoming: IncomingMessage, { socket, head }: Upgrade): void {
  const { method, url, httpVersion, rawHeaders } = incoming;
  const lines: string[] = [`${method} ${url} HTTP/${httpVersion}`];
  for (let at = 0; at < rawHeaders.length; at += 2)
    if (!ASKING.test(rawHeaders[at] ?? "")) lines.push(`${rawHeaders[at]}: ${rawHeaders[at + 1]}`);
  socket.unshift(Buffer.concat([Buffer.from(`${lines.join("\r\n")}\r\n\r\n`, "latin1"), head]));
  server.emit("connection", socket);
}
