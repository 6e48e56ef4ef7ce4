import { createHash, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { Duplex } from "node:stream";
import { toAcceptKey, WebSocketStream } from "./web-socket.ts";

/** The header of the token, which edges of vendors let through. */
export const TOKEN_HEADER = "sluice-token";
/** In the answers to plain requests, which tell nothing else. */
export const RUNNER_HEADER = "sluice-runner";
export const EDGE_PATH = "/v1/dial";

export function hashToken(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}

/**
 * The runner for a machine whose ports can be reached from the internet. Every connection is a WebSocket that begins with
 * the token of the sandbox; the machine has only the token's hash.
 */
export function createEdge(runner: Server, { hash, build }: { hash: string; build: string }): Server {
  const edge = createServer((_request, response) => {
    response.writeHead(404, { [RUNNER_HEADER]: build }).end();
  });
  edge.on("upgrade", (request, socket: Duplex, head: Buffer) => {
    socket.on("error", () => socket.destroy());
    const refusal = refusalOf(request, hash);
    if (refusal !== undefined)
      return void socket.end(
        `HTTP/1.1 ${refusal}\r\n${RUNNER_HEADER}: ${build}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`,
      );
    const accept = toAcceptKey(String(request.headers["sec-websocket-key"]));
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
    );
    const stream = new WebSocketStream(socket, { first: head, masks: false });
    stream.on("error", () => stream.destroy());
    runner.emit("connection", stream);
  });
  return edge;
}

function refusalOf({ headers, url }: IncomingMessage, hash: string): string | undefined {
  const token = headers[TOKEN_HEADER];
  const given = Buffer.from(hashToken(typeof token === "string" ? token : ""));
  const known = Buffer.from(hash);
  if (given.length !== known.length || !timingSafeEqual(given, known)) return "401 Unauthorized";
  const isDial = url === EDGE_PATH && headers.upgrade?.toLowerCase() === "websocket";
  return isDial && headers["sec-websocket-key"] !== undefined ? undefined : "404 Not Found";
}
