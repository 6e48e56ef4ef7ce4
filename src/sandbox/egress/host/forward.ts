import {
  request as startRequest,
  type ClientRequest,
  type IncomingMessage,
  type ServerResponse,
} from "node:http";
import { isIP, type Socket } from "node:net";
import { pipeline } from "node:stream/promises";
import { connect as connectTls } from "node:tls";
import { parseHostPort, toAuthority } from "../connection.ts";
import { dial, type DialOptions } from "./dial.ts";
import type { Lender } from "./lender.ts";
import { prepareRequest, toInward } from "./message.ts";
import { onlyByName, Refusal, unreachable } from "./refusal.ts";

export interface ForwardOptions extends DialOptions {
  /** Set if secrets are lent to this sandbox. */
  readonly lender?: Lender | undefined;
}

export interface Target {
  readonly host: string;
  readonly port: number;
  readonly path: string;
  readonly isSecure?: boolean;
  /** An open connection to the target. */
  readonly socket?: Socket | undefined;
}

/** Forwards a plain HTTP request with a whole URL, and its answer. */
export function forward(
  request: IncomingMessage,
  response: ServerResponse,
  options: ForwardOptions,
): Promise<void> {
  return forwardTo(parseTarget(request.url ?? ""), request, response, options);
}

/** Forwards a request with the secrets that may go to its host, and its answer without them. */
export async function forwardTo(
  target: Target,
  request: IncomingMessage,
  response: ServerResponse,
  options: ForwardOptions,
): Promise<void> {
  const substitution = await options.lender?.for(target.host, target.port);
  const { host, port, isSecure = false } = target;
  const outward = await prepareRequest(request, { host, port, isSecure, substitution });
  const socket = await connectTo(target, options);
  if (response.destroyed) return void socket.destroy();
  const outgoing = startOutgoing(request, target, outward.headers, socket);
  response.on("close", () => outgoing.destroy());
  const incoming = new Promise<IncomingMessage>((resolve, reject) => {
    outgoing.on("response", resolve);
    outgoing.on("error", reject);
  });
  // A server may answer before it has read the whole request. Then the answer counts, not the broken upload.
  outward.send(outgoing).catch(() => {});
  const answer = await incoming;
  try {
    const { status, reason, headers, through } = toInward(answer, substitution);
    response.writeHead(status, reason, headers);
    response.flushHeaders();
    // The answer to a HEAD has no body to decode.
    await pipeline([answer, ...(request.method === "HEAD" ? [] : through), response]);
  } finally {
    outgoing.destroy();
  }
}

/** Starts a request to the target on this connection. The caller handles the answer. */
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
    // The Host header is the target's: the client's could name a site that is not allowed.
    headers: { ...headers, host: isUsual ? authority.slice(0, -String(port).length - 1) : authority },
    createConnection: () => socket,
    maxHeaderSize: 65_536,
    setHost: false,
  });
}

/** A connection to the target: its open one, or a new one to a checked address. With TLS for a secure target. */
export async function connectTo(target: Target, options: ForwardOptions): Promise<Socket> {
  const { host, port, isSecure } = target;
  const isOpen = target.socket !== undefined && !target.socket.destroyed;
  const socket = isOpen ? target.socket : await dialKnown(host, port, options);
  return isSecure ? secure(socket, host, port) : socket;
}

/**
 * Connects to a host. A host that may get secrets has to be asked for by name: its known addresses are refused, as
 * secrets in their answers would not be replaced.
 */
export async function dialKnown(host: string, port: number, options: ForwardOptions): Promise<Socket> {
  const { lender } = options;
  const getsSecrets = (await lender?.for(host, port)) !== undefined;
  if (!getsSecrets && lender?.isKnown(host, port)) throw onlyByName(host, port);
  const socket = await dial(host, port, options);
  if (getsSecrets) lender?.remember(socket.remoteAddress, port);
  return socket;
}

/** Starts TLS, in which the server proves to be the requested host before anything is sent. */
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
