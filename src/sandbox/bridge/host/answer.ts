import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { Refusal } from "./refusal.ts";

/** Lets something answer a request; where it fails, the proxy says why. */
export async function answerWith(
  request: IncomingMessage,
  response: ServerResponse,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (response.headersSent || response.destroyed) return void response.destroy();
    const { status, message } = toRefusal(error);
    response.writeHead(status, { ...EXPLAINED, "content-length": Buffer.byteLength(message) });
    response.end(message);
    // What the client still sends of its body is not wanted.
    request.resume();
  }
}

/** The same to a connection that is no request's. */
export function answerRaw(socket: Socket, { status, message }: Refusal): void {
  if (socket.destroyed) return;
  socket.on("error", () => socket.destroy());
  const head = [`HTTP/1.1 ${status} ${REASONS[status] ?? "Refused"}`, "Connection: close"];
  for (const [name, value] of Object.entries(EXPLAINED)) head.push(`${name}: ${value}`);
  head.push(`Content-Length: ${Buffer.byteLength(message)}`, "", message);
  socket.end(head.join("\r\n"), () => socket.destroySoon());
}

export function toRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  return new Refusal(502, `sluice: the connection failed: ${(error as Error).message}\n`);
}

const EXPLAINED = { "content-type": "text/plain; charset=utf-8", "sluice-bridge": "refused" };

const REASONS: Record<number, string> = {
  400: "Bad Request",
  403: "Forbidden",
  431: "Request Header Fields Too Large",
  502: "Bad Gateway",
  503: "Service Unavailable",
};
