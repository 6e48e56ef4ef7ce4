import { request as startRequest, type IncomingMessage, type ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import { parseHostPort, toAuthority } from "../hostPort.ts";
import { dial, type DialOptions } from "./dial.ts";
import { Refusal } from "./refusal.ts";

/** One plain HTTP request, given with its whole URL, to its host and back. */
export async function forward(
  request: IncomingMessage,
  response: ServerResponse,
  options: DialOptions,
): Promise<void> {
  const { host, port, path } = parseTarget(request.url ?? "");
  const socket = await dial(host, port, options);
  if (response.destroyed) return void socket.destroy();
  const outgoing = startRequest({
    method: request.method ?? "GET",
    path,
    // The URL decides: a Host header of the client's own could name a site that is not allowed.
    headers: {
      ...toHeaders(request),
      host: port === 80 ? toAuthority(host, 80).slice(0, -3) : toAuthority(host, port),
    },
    createConnection: () => socket,
    maxHeaderSize: 65_536,
    setHost: false,
  });
  response.on("close", () => outgoing.destroy());
  const incoming = new Promise<IncomingMessage>((resolve, reject) => {
    outgoing.on("response", resolve);
    outgoing.on("error", reject);
  });
  // A server may answer before it has read all; that answer counts, not the broken upload.
  pipeline(request, outgoing).catch(() => {});
  const answer = await incoming;
  response.writeHead(answer.statusCode ?? 502, answer.statusMessage, toHeaders(answer));
  response.flushHeaders();
  await pipeline(answer, response);
}

function parseTarget(url: string): { host: string; port: number; path: string } {
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

/** Those of the message, without those of the connection that it came by. */
function toHeaders(message: IncomingMessage): Record<string, string[]> {
  const dropped = new Set(HOP_BY_HOP);
  for (const name of (message.headers.connection ?? "").split(",")) dropped.add(name.trim().toLowerCase());
  const headers: Record<string, string[]> = {};
  for (const [name, values] of Object.entries(message.headersDistinct)) {
    if (!dropped.has(name) && values !== undefined) headers[name] = values;
  }
  const isRequest = message.method !== null && message.method !== undefined;
  if (isRequest && message.headers["transfer-encoding"] !== undefined)
    headers["transfer-encoding"] = ["chunked"];
  return headers;
}

const HOP_BY_HOP: readonly string[] = [
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "expect",
  "host",
];
