import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { splice } from "../connection.ts";
import { toAuthority } from "../host-port.ts";
import { connectTo, startOutgoing, type ForwardOptions, type Target } from "./forward.ts";
import { refuseFraming, toHeaders, toInward, toOutwardHeaders, type Inward } from "./message.ts";
import { answerRaw, Refusal, toRefusal } from "./refusal.ts";
import type { Headers, Substitution } from "./substitution.ts";
import { ScrubFrames } from "./web-socket-frames.ts";

/** Forwards a request that asks for a WebSocket. Its head is handled like any other; the server's messages are scrubbed. */
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
    const headers = toUpgradeHeaders(request, target, substitution);
    const socket = await connectTo(target, options);
    if (client.destroyed) return void socket.destroy();
    const outgoing = startOutgoing(request, target, headers, socket);
    client.on("close", () => outgoing.destroy());
    outgoing.on("error", (error) => answerRaw(client, toRefusal(error)));
    outgoing.on("response", (answer) => void forwardRefusal(answer, client, substitution));
    outgoing.on("upgrade", (answer, upstream: Socket, first: Buffer) => {
      try {
        client.write(toHead(toSwitched(answer, substitution)));
      } catch (error) {
        upstream.destroy();
        return answerRaw(client, toRefusal(error));
      }
      if (first.length > 0) upstream.unshift(first);
      if (head.length > 0) client.unshift(head);
      const scrub = substitution && new ScrubFrames(() => substitution.createScrubber());
      splice(client, upstream, scrub);
    });
    outgoing.end();
  } catch (error) {
    answerRaw(client, toRefusal(error));
  }
}

function toUpgradeHeaders(
  request: IncomingMessage,
  target: Target,
  substitution: Substitution | undefined,
): Headers {
  const { host, port, isSecure = false } = target;
  const protocol = request.headers.upgrade ?? "";
  const length = Number(request.headers["content-length"] ?? 0);
  refuseFraming(request);
  if (request.headers["transfer-encoding"] !== undefined || length !== 0) {
    throw new Refusal(400, "sluice: a request that asks for another protocol has no body here.\n");
  }
  if (substitution !== undefined && protocol.trim().toLowerCase() !== "websocket") {
    throw new Refusal(
      403,
      `sluice: secrets may go to ${toAuthority(host, port)}, so that all it answers has to be read here, and the protocol ${JSON.stringify(protocol)} cannot be. HTTP/1.1 and WebSockets can.\n`,
    );
  }
  const { "sec-websocket-extensions": extensions, ...plain } = toHeaders(request);
  // The extensions compress messages, which could not be scrubbed then.
  const given =
    substitution === undefined && extensions ? { ...plain, "sec-websocket-extensions": extensions } : plain;
  const headers = toOutwardHeaders(given, { host, port, isSecure, substitution });
  return { ...headers, connection: ["Upgrade"], upgrade: [protocol] };
}

/** Forwards the answer of a server that stays with HTTP, and closes the connection. */
async function forwardRefusal(
  answer: IncomingMessage,
  client: Socket,
  substitution: Substitution | undefined,
): Promise<void> {
  let isAnswered = false;
  try {
    const { through, ...inward } = toInward(answer, substitution);
    const { "content-length": _length, ...headers } = inward.headers;
    isAnswered = true;
    client.write(toHead({ ...inward, headers: { ...headers, connection: ["close"] } }));
    await pipeline([answer, ...through, client] as [IncomingMessage, ...Transform[], Socket]);
  } catch (error) {
    answer.destroy();
    if (isAnswered) client.destroy();
    else answerRaw(client, toRefusal(error));
  }
}

function toSwitched(
  answer: IncomingMessage,
  substitution: Substitution | undefined,
): Omit<Inward, "through"> {
  const inward = toInward(answer, substitution);
  if (substitution !== undefined && inward.headers["sec-websocket-extensions"] !== undefined) {
    throw new Refusal(502, "sluice: the server uses an extension of WebSockets that it was not asked for.\n");
  }
  const upgrade = answer.headers.upgrade ?? "";
  return { ...inward, headers: { ...inward.headers, connection: ["Upgrade"], upgrade: [upgrade] } };
}

function toHead({ status, reason, headers }: Omit<Inward, "through">): string {
  const lines = [`HTTP/1.1 ${status} ${reason}`];
  for (const [name, values] of Object.entries(headers)) {
    for (const value of values) lines.push(`${name}: ${value}`);
  }
  return `${lines.join("\r\n")}\r\n\r\n`;
}
