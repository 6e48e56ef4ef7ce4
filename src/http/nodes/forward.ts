import { type IncomingMessage, request as requestHttp, STATUS_CODES } from "node:http";
import { request as requestHttps } from "node:https";
import { type Duplex, Readable } from "node:stream";
import type { ReadableStream as NodeReadableStream } from "node:stream/web";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import type { Context } from "hono";
import type { AppEnv } from "../context.ts";
import type { Nodes, Peer } from "./port.ts";
import { FORWARD_HEADER, sign } from "./signature.ts";

/** The header of an answer that another node has to give. */
export const MISDIRECTED_HEADER = "sluice-misdirected";
/** The header that names the node of an answer, for the node that has forwarded the request. */
export const NODE_HEADER = "sluice-node";

/** Headers of one connection, which a proxy does not pass on. */
export const CONNECTION_HEADERS: readonly string[] = [
  "connection",
  "expect",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
];

/** Headers of one connection, those that the next node makes itself, and credentials: the claims take their place. */
const DROPPED = new Set([
  ...CONNECTION_HEADERS,
  "host",
  "origin",
  "authorization",
  "x-api-key",
  FORWARD_HEADER,
]);
const HIDDEN = new Set([...DROPPED, NODE_HEADER, MISDIRECTED_HEADER]);
const LOOK_MS = 1_000;

/**
 * The answer of the other node; or `refused` where nothing was sent, `moved` where that node does not have the session,
 * and `cut` where the request may have been carried out or not.
 */
export type Outcome = Response | "refused" | "moved" | "cut";

export interface Forwarding {
  readonly nodes: Nodes;
  readonly peer: Peer & { readonly url: string };
  /** The body, if it was read already. */
  readonly body: Buffer | undefined;
}

/** Sends the request of a client to another node, with its body as it comes, and answers with the answer as it comes. */
export function forward(c: Context<AppEnv>, { nodes, peer, body }: Forwarding): Promise<Outcome> {
  const { pathname, search } = new URL(c.req.url);
  const target = new URL(peer.url);
  const path = `${pathname}${search}`;
  const { method } = c.req;
  const claims = { to: peer.life, from: nodes.name, method, path, at: Date.now(), access: c.get("access") };
  const upgrade = c.env?.upgrade;
  const headers: Record<string, string> = { [FORWARD_HEADER]: sign(claims, nodes.keys) };
  for (const [name, value] of c.req.raw.headers) if (!DROPPED.has(name)) headers[name] = value;
  if (upgrade) Object.assign(headers, { connection: "Upgrade", upgrade: "websocket" });
  const streamed = upgrade || body ? undefined : bodyOf(c);
  if (streamed && headers["content-length"] === undefined) headers["transfer-encoding"] = "chunked";
  return new Promise((resolve) => {
    let isConnected = false;
    const outgoing = (target.protocol === "https:" ? requestHttps : requestHttp)({
      host: target.hostname.replaceAll(/[[\]]/g, ""),
      port: target.port || (target.protocol === "https:" ? 443 : 80),
      method,
      path,
      headers,
      agent: false,
      signal: c.req.raw.signal,
    });
    // A frozen node accepts connections and answers nothing: the request ends with its lease.
    const watch = setInterval(() => {
      void nodes.isAlive(peer.life).then(
        (isAlive) => !isAlive && outgoing.destroy(new Error("the node is gone")),
        () => {},
      );
    }, LOOK_MS);
    const settle = (outcome: Outcome): void => {
      clearInterval(watch);
      resolve(outcome);
    };
    outgoing.on("error", () => settle(isConnected ? "cut" : "refused"));
    outgoing.once("upgrade", (answer, socket, head) => {
      if (!upgrade) return socket.destroy();
      join(upgrade, { answer, socket, head });
      settle(RESPONSE_ALREADY_SENT);
    });
    outgoing.once("response", (answer) => {
      if (answer.statusCode !== 421 || answer.headers[MISDIRECTED_HEADER] === undefined)
        return settle(toResponse(method, answer));
      answer.resume();
      settle("moved");
    });
    outgoing.once("socket", (socket) => {
      // Nothing of the body is read before: a refused request can go elsewhere.
      socket.once(target.protocol === "https:" ? "secureConnect" : "connect", () => {
        isConnected = true;
        if (!streamed) return void outgoing.end(body);
        streamed.on("error", (error) => outgoing.destroy(error)).pipe(outgoing);
      });
    });
  });
}

function toResponse(method: string, answer: IncomingMessage): Response {
  const headers = new Headers();
  for (const [name, values = []] of Object.entries(answer.headersDistinct))
    for (const value of values) if (!HIDDEN.has(name)) headers.append(name, value);
  const status = answer.statusCode ?? 502;
  if (method === "HEAD" || [204, 205, 304].includes(status)) {
    answer.resume();
    return new Response(null, { status, headers });
  }
  return new Response(Readable.toWeb(answer) as ReadableStream, { status, headers });
}

/** Answers the client of a WebSocket as the other node has answered, and connects the two. */
function join(
  client: { readonly socket: Duplex; readonly head: Buffer },
  { answer, socket, head }: { answer: IncomingMessage; socket: Duplex; head: Buffer },
): void {
  const lines = [`HTTP/1.1 101 ${STATUS_CODES[101]}`, "connection: Upgrade", "upgrade: websocket"];
  for (const [name, values = []] of Object.entries(answer.headersDistinct))
    for (const value of values) if (!HIDDEN.has(name)) lines.push(`${name}: ${value}`);
  client.socket.write(Buffer.from(`${lines.join("\r\n")}\r\n\r\n`, "latin1"));
  client.socket.write(head);
  socket.write(client.head);
  for (const [one, other] of [[socket, client.socket] as const, [client.socket, socket] as const]) {
    one.on("error", () => other.destroy());
    one.once("close", () => other.destroy());
    one.pipe(other);
  }
}

function bodyOf(c: Context<AppEnv>): Readable | undefined {
  const incoming = c.env?.incoming;
  if (!incoming) return c.req.raw.body ? Readable.fromWeb(c.req.raw.body as NodeReadableStream) : undefined;
  const { "content-length": length, "transfer-encoding": encoding } = incoming.headers;
  return length === undefined && encoding === undefined ? undefined : (incoming as Readable);
}
