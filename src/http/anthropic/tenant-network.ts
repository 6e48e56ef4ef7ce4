import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { isIP, type Socket } from "node:net";
import { Readable } from "node:stream";
import { connect as connectTls } from "node:tls";
import { createBrotliDecompress, createUnzip } from "node:zlib";
import type { PublicAuth } from "../../dialects/anthropic/resources/credential-auth.ts";
import type { EnvironmentConfig } from "../../dialects/anthropic/resources/environment.ts";
import { refuse } from "../../dialects/anthropic/resources/resource.ts";
import { dialPublic, findPrivateHost, isPrivateHost } from "../../sessions/private-hosts.ts";
import { isWorkspace } from "../auth.ts";

/** The `fetch` of a tenant. A workspace reaches public addresses only. */
export function fetcherOf(tenant: string): (url: string, init: RequestInit) => Promise<Response> {
  return isWorkspace(tenant) ? publicFetch : fetch;
}

/**
 * Refuses addresses of this machine and its network in the resources of a workspace. Names are checked with
 * each connection, as they may resolve to another address later.
 */
export const assertReachable = {
  environment(tenant: string, config: EnvironmentConfig): void {
    if (config.type !== "cloud" || config.networking.type !== "limited") return;
    assertHosts(tenant, "config.networking.allowed_hosts", config.networking.allowed_hosts);
  },
  servers(tenant: string, servers: readonly { readonly name: string; readonly url: string }[]): void {
    for (const { name, url } of servers) assertUrl(tenant, `mcp_servers: ${name}`, url);
  },
  credential(tenant: string, auth: PublicAuth): void {
    if (auth.type === "environment_variable") {
      if (auth.networking.type === "limited")
        assertHosts(tenant, "auth.networking.allowed_hosts", auth.networking.allowed_hosts);
      return;
    }
    assertUrl(tenant, "auth.mcp_server_url", auth.mcp_server_url);
    if (auth.type === "mcp_oauth" && auth.refresh)
      assertUrl(tenant, "auth.refresh.token_endpoint", auth.refresh.token_endpoint);
  },
  repository(tenant: string, url: string): void {
    assertUrl(tenant, "resources", url);
  },
};

function assertUrl(tenant: string, field: string, url: string): void {
  if (isWorkspace(tenant) && isPrivateHost(new URL(url).hostname)) throw toRefusal(field, url);
}

function assertHosts(tenant: string, field: string, hosts: readonly string[]): void {
  const found = isWorkspace(tenant) ? findPrivateHost(hosts) : undefined;
  if (found !== undefined) throw toRefusal(field, found);
}

function toRefusal(field: string, address: string): Error {
  return refuse(
    `${field}: ${address} is an address of this machine or its network, which a workspace cannot reach. Use a host of the internet.`,
  );
}

const HANDSHAKE_MS = 20_000;

/** `fetch` to public hosts only; the address is checked when it is dialled. Redirects are not followed. */
async function publicFetch(url: string, init: RequestInit = {}): Promise<Response> {
  // `Request` normalises the headers and the body.
  const normalised = new Request(url, init);
  const body = Buffer.from(await normalised.arrayBuffer());
  const { signal } = init;
  signal?.throwIfAborted();
  const socket = await connectPublic(new URL(url));
  if (signal?.aborted) socket.destroy();
  signal?.throwIfAborted();
  const { host, pathname, search } = new URL(url);
  const headers = {
    ...Object.fromEntries(normalised.headers),
    host,
    connection: "close",
    "accept-encoding": "identity",
    ...(body.length > 0 && { "content-length": String(body.length) }),
  };
  return new Promise((resolve, reject) => {
    const sent = request({
      createConnection: () => socket,
      method: normalised.method,
      path: pathname + search,
      headers,
      ...(signal && { signal }),
    });
    sent.once("error", reject);
    sent.once("response", (incoming) => {
      try {
        resolve(toResponse(incoming));
      } catch (error) {
        sent.destroy();
        reject(error as Error);
      }
    });
    sent.end(body);
  });
}

/** Connects to a public host; with TLS unless the URL is plain http. */
export async function connectPublic({ protocol, hostname, port }: URL): Promise<Socket> {
  const host = hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "");
  const isPlain = protocol === "http:";
  const socket = await dialPublic(host, Number(port || (isPlain ? 80 : 443)));
  // An error without a listener would crash the server. The user of the socket sees its close.
  socket.on("error", () => {});
  if (isPlain) return socket;
  const secure = connectTls({ socket, ...(isIP(host) === 0 && { servername: host }) });
  secure.on("error", () => {});
  try {
    await once(secure, "secureConnect", { signal: AbortSignal.timeout(HANDSHAKE_MS) });
    return secure;
  } catch (error) {
    secure.destroy();
    throw error;
  }
}

const BODILESS: ReadonlySet<number> = new Set([204, 205, 304]);

function toResponse(incoming: IncomingMessage): Response {
  const status = incoming.statusCode ?? 0;
  const headers = new Headers();
  const { rawHeaders } = incoming;
  for (let at = 0; at < rawHeaders.length; at += 2)
    headers.append(rawHeaders[at] ?? "", rawHeaders[at + 1] ?? "");
  if (BODILESS.has(status)) {
    incoming.resume();
    return new Response(null, { status, headers });
  }
  return new Response(Readable.toWeb(decode(incoming)) as ReadableStream, { status, headers });
}

/** Some servers compress although the request asks for `identity`. */
function decode(incoming: IncomingMessage): Readable {
  const coding = incoming.headers["content-encoding"]?.trim().toLowerCase();
  const decoder =
    coding === "br" ? createBrotliDecompress() : /^(x-)?gzip$|^deflate$/.test(coding ?? "") && createUnzip();
  if (!decoder) return incoming;
  incoming.once("error", (error) => decoder.destroy(error));
  decoder.once("close", () => incoming.destroy());
  return incoming.pipe(decoder);
}
