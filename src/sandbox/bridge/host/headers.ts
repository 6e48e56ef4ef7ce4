import type { IncomingMessage } from "node:http";
import { Refusal } from "./refusal.ts";

export type Headers = Record<string, string[]>;

/** Those of the message, without those of the connection that it came by. */
export function toHeaders(message: IncomingMessage): Headers {
  const dropped = new Set(HOP_BY_HOP);
  for (const word of (message.headers.connection ?? "").split(",")) {
    const name = word.trim().toLowerCase();
    if (!ESSENTIAL.test(name)) dropped.add(name);
  }
  const isChunked = message.headers["transfer-encoding"] !== undefined;
  // One of the two says where the body ends, never both.
  if (isChunked) dropped.add("content-length");
  const entries = Object.entries(message.headersDistinct).flatMap(([name, values]): [string, string[]][] =>
    dropped.has(name) || values === undefined ? [] : [[name, values]],
  );
  const isRequest = message.method !== null && message.method !== undefined;
  if (isRequest && isChunked) entries.push(["transfer-encoding", ["chunked"]]);
  return Object.fromEntries(entries);
}

/** What two servers could read in two ways is passed on to none. */
export function refuseFraming({ headers, httpVersion }: IncomingMessage): void {
  const coding = headers["transfer-encoding"];
  if (coding === undefined) return;
  if (coding.trim().toLowerCase() !== "chunked") {
    throw new Refusal(
      400,
      "sluice: the only transfer coding of a request that the proxy passes on is chunked.\n",
    );
  }
  if (headers["content-length"] !== undefined || httpVersion === "1.0") {
    throw new Refusal(
      400,
      "sluice: the request says in two ways how long its body is; send only one of them.\n",
    );
  }
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
  "http2-settings",
  "expect",
  "host",
];

/** What a Connection header cannot take away: how a message is framed and read, and whose it is. */
const ESSENTIAL = /^(content-.*|accept-encoding|authorization|cookie|set-cookie|location)$/;
