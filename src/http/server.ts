import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { createAdaptorServer } from "@hono/node-server";
import { SluiceError } from "../contract/index.ts";
import type { App } from "./app.ts";

export interface ListenOptions {
  readonly app: App;
  readonly host: string;
  /** 0 takes any free one. */
  readonly port: number;
}

export interface Listening {
  readonly url: string;
  readonly port: number;
  /** Cuts the streams, lets other requests finish for a moment, and frees the port. */
  close(): Promise<void>;
}

export async function listen({ app, host, port }: ListenOptions): Promise<Listening> {
  const server = createAdaptorServer({
    fetch: app.fetch,
    hostname: host,
    // What is left of a body is discarded below, for long enough that a client can read why.
    autoCleanupIncoming: false,
  }) as Server;
  // A large upload may take its time; headers may not.
  server.requestTimeout = 0;
  // Longer than what proxies in front keep idle connections, so that they close first.
  server.keepAliveTimeout = 75_000;
  server.on("request", discardUnread);
  const closeUnused = trackUnused(server);
  await bind(server, host, port);
  const bound = (server.address() as AddressInfo).port;
  const name = host.includes(":") ? `[${host}]` : host;
  return { url: `http://${name}:${bound}`, port: bound, close: () => close(server, app, closeUnused) };
}

const GRACE_MS = 2_000;
const DISCARD_MS = 10_000;

function bind(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const onError = (error: NodeJS.ErrnoException): void => reject(toListenError(error, host, port));
    server.once("error", onError);
    server.listen(port, host, () => {
      server.off("error", onError);
      resolve();
    });
  });
}

function toListenError(error: NodeJS.ErrnoException, host: string, port: number): Error {
  const facts = { host, port, reason: error.code };
  const options = { cause: error };
  if (error.code === "EADDRINUSE") {
    const detail = `Port ${port} on ${host} is in use. Use --port 0 for any free port, or another one.`;
    return new SluiceError("internal", detail, facts, options);
  }
  if (error.code === "EACCES") {
    const detail = `Port ${port} on ${host} may not be used by this user. Use --port with a number above 1023.`;
    return new SluiceError("internal", detail, facts, options);
  }
  if (["ENOTFOUND", "EAI_AGAIN", "EADDRNOTAVAIL"].includes(error.code ?? "")) {
    const detail = `${host} is no address of this machine (${error.code}). Use --host 127.0.0.1, or 0.0.0.0 for all of them.`;
    return new SluiceError("internal", detail, facts, options);
  }
  return new SluiceError("internal", `Cannot listen on ${host}:${port}: ${error.message}.`, facts, options);
}

/**
 * A request that was answered before its body was read, such as one that is too large: the rest goes nowhere,
 * and after a while the connection does too. Closing at once would reset it before the client reads the answer.
 */
function discardUnread(incoming: IncomingMessage, outgoing: ServerResponse): void {
  outgoing.once("finish", () => {
    if (incoming.complete) return;
    incoming.resume();
    const timer = setTimeout(() => incoming.socket.destroy(), DISCARD_MS);
    timer.unref();
    incoming.once("close", () => clearTimeout(timer));
    incoming.once("end", () => clearTimeout(timer));
  });
}

/** Browsers and undici connect ahead of need; Node does not call a connection idle that never had a request. */
function trackUnused(server: Server): () => void {
  const unused = new Set<Socket>();
  server.on("connection", (socket) => {
    unused.add(socket);
    socket.once("close", () => unused.delete(socket));
  });
  server.on("request", (incoming) => unused.delete(incoming.socket));
  return () => {
    for (const socket of unused) socket.destroy();
  };
}

async function close(server: Server, app: App, closeUnused: () => void): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  app.cutStreams();
  closeUnused();
  server.closeIdleConnections();
  const timer = setTimeout(() => server.closeAllConnections(), GRACE_MS);
  await closed;
  clearTimeout(timer);
}
