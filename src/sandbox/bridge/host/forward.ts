import {
  request as startRequest,
  type ClientRequest,
  type IncomingMessage,
  type ServerResponse,
} from "node:http";
import { isIP, type Socket } from "node:net";
import { pipeline } from "node:stream/promises";
import { connect as connectTls } from "node:tls";
import { parseHostPort, toAuthority } from "../hostPort.ts";
import { dial, type DialOptions } from "./dial.ts";
import type { Lender } from "./lender.ts";
import { toInward, toOutward } from "./message.ts";
import { onlyByName, Refusal, unreachable } from "./refusal.ts";

export interface ForwardOptions extends DialOptions {
  /** Where secrets are lent to this sandbox. */
  readonly lender?: Lender | undefined;
}

export interface Target {
  readonly host: string;
  readonly port: number;
  readonly path: string;
  readonly isSecure?: boolean;
  /** A connection to it that is open already. */
  readonly socket?: Socket | undefined;
}

/** One plain HTTP request, given with its whole URL, to its host and back. */
export function forward(
  request: IncomingMessage,
  response: ServerResponse,
  options: ForwardOptions,
): Promise<void> {
  return forwardTo(parseTarget(request.url ?? ""), request, response, options);
}

/** One request to its host and back, with the secrets that may go there. */
export async function forwardTo(
  target: Target,
  request: IncomingMessage,
  response: ServerResponse,
  options: ForwardOptions,
): Promise<void> {
  const substitution = await options.lender?.for(target.host, target.port);
  const { host, port, isSecure = false } = target;
  const outward = await toOutward(request, { host, port, isSecure, substitution });
  const socket = await connectTo(target, options);
  if (response.destroyed) return void socket.destroy();
  const outgoing = startOutgoing(request, target, outward.headers, socket);
  response.on("close", () => outgoing.destroy());
  const incoming = new Promise<IncomingMessage>((resolve, reject) => {
    outgoing.on("response", resolve);
    outgoing.on("error", reject);
  });
  // A server may answer before it has read all; that answer counts, not the broken upload.
  outward.send(outgoing).catch(() => {});
  const answer = await incoming;
  try {
    const { status, reason, headers, through } = toInward(answer, substitution);
    response.writeHead(status, reason, headers);
    response.flushHeaders();
    // A HEAD's answer has no body to decode.
    await pipeline([answer, ...(request.method === "HEAD" ? [] : through), response]);
  } finally {
    outgoing.destroy();
  }
}

/** A request to the target by this connection; what it answers is the caller's to see to. */
export function startOutgoing(
  request: IncomingMessage,
  { host, port, path, isSecure = false }: Target,
  headers: Record<string, string[]>,
  socket: Socket,
): ClientRequest {
  const isUsual = port === (isSecure ? 443 : 80);
  const authority = toAuthority(host, port);
  return startRequest({
    method: request.method ?? "GET",
    path,
    // The target decides: a Host header of the client's own could name a site that is not allowed.
    headers: { ...headers, host: isUsual ? authority.slice(0, -String(port).length - 1) : authority },
    createConnection: () => socket,
    maxHeaderSize: 65_536,
    setHost: false,
  });
}

/** A connection to the target that is checked like any other; with TLS where it wants that. */
export async function connectTo(target: Target, options: ForwardOptions): Promise<Socket> {
  const { host, port, isSecure } = target;
  const isOpen = target.socket !== undefined && !target.socket.destroyed;
  const socket = isOpen ? target.socket : await dialKnown(host, port, options);
  return isSecure ? secure(socket, host, port) : socket;
}

/** Where secrets may go to a host, its address leads there only by its name: else its answers would not be looked at. */
export async function dialKnown(host: string, port: number, options: ForwardOptions): Promise<Socket> {
  const { lender } = options;
  const isMeant = (await lender?.for(host, port)) !== undefined;
  if (!isMeant && lender?.isKnown(host, port)) throw onlyByName(host, port);
  const socket = await dial(host, port, options);
  if (isMeant) lender?.remember(socket.remoteAddress, port);
  return socket;
}

/** Whoever answers has to prove to be the host that was asked for, before anything is sent. */
function secure(socket: Socket, host: string, port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const servername = isIP(host) === 0 ? { servername: host } : {};
    const upstream = connectTls({ socket, host, ...servername, ALPNProtocols: ["http/1.1"] });
    const fail = (error: NodeJS.ErrnoException): void => {
      upstream.destroy();
      reject(unreachable(host, port, `no secure connection (${error.code ?? error.message}).`));
    };
    upstream.once("error", fail).once("secureConnect", () => resolve(upstream.off("error", fail)));
  });
}

function parseTarget(url: string): Target {
  const match = /^http:\/\/([^/?#]+)([^#]*)/i.exec(url);
  const authority = match?.[1]?.replace(/^[^@]*@/, "");
  const { host, port = 80 } = (authority === undefined ? undefined : parseHostPort(authority)) ?? {};
  if (host === undefined) {
    const text = `sluice: this is the sandbox's HTTP proxy; it takes CONNECT host:port and GET http://host/path, not ${JSON.stringify(url.slice(0, 200))}.\n`;
    throw new Refusal(400, text);
  }
  const rest = match?.[2] ?? "";
  return { host, port, path: rest.startsWith("/") ? rest : `/${rest}` };
}
