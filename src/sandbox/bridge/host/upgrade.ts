import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { splice } from "../splice.ts";
import { answerRaw, toRefusal } from "./answer.ts";
import { connectTo, startOutgoing, type ForwardOptions, type Target } from "./forward.ts";
import { toHeaders } from "./headers.ts";

/** A request that goes on as something else, such as a WebSocket: its head is like any other, then it is bytes. */
export async function upgradeTo(
  target: Target,
  request: IncomingMessage,
  client: Socket,
  head: Buffer,
  options: ForwardOptions,
): Promise<void> {
  client.on("error", () => client.destroy());
  try {
    const substitution = await options.lender?.for(target.host, target.port);
    const given = toHeaders(request);
    const headers = substitution?.inHeaders(given) ?? given;
    const socket = await connectTo(target, options);
    if (client.destroyed) return void socket.destroy();
    const upgrade = { connection: ["Upgrade"], upgrade: [request.headers.upgrade ?? ""] };
    const outgoing = startOutgoing(request, target, { ...headers, ...upgrade }, socket);
    outgoing.on("error", (error) => answerRaw(client, toRefusal(error)));
    outgoing.on("response", (answer) => {
      client.write(toHead(answer));
      answer.pipe(client);
    });
    outgoing.on("upgrade", (answer, upstream: Socket, first: Buffer) => {
      client.write(toHead(answer));
      if (first.length > 0) upstream.unshift(first);
      if (head.length > 0) client.unshift(head);
      splice(client, upstream);
    });
    outgoing.end();
  } catch (error) {
    answerRaw(client, toRefusal(error));
  }
}

/** As it came: what belongs to the connection is meant for the client here. */
function toHead({ statusCode, statusMessage, rawHeaders }: IncomingMessage): string {
  const lines = [`HTTP/1.1 ${statusCode} ${statusMessage}`];
  for (let at = 0; at < rawHeaders.length; at += 2) lines.push(`${rawHeaders[at]}: ${rawHeaders[at + 1]}`);
  return `${lines.join("\r\n")}\r\n\r\n`;
}
