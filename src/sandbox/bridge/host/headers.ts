import type { IncomingMessage } from "node:http";

/** Those of the message, without those of the connection that it came by. */
export function toHeaders(message: IncomingMessage): Record<string, string[]> {
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
