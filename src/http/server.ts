import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { SluiceError } from "../contract/index.ts";
import type { App } from "./app.ts";
import { isLoopback } from "./origin.ts";
import { toHealth } from "./universal/health.ts";
import { acceptUpgrades } from "./universal/upgrades.ts";

export interface ListenOptions {
  readonly app: App | LateApp;
  readonly host: string;
  /** 0 for any free port. */
  readonly port: number;
}

/** An app that is loaded after its port is open: by the first request that needs it, or by `load()`. */
export interface LateApp {
  readonly version: string;
  load(): Promise<App>;
}

export interface Listening {
  readonly url: string;
  readonly port: number;
  /** Loads the app, unless a request has loaded it already. */
  load(): Promise<void>;
  /** Cuts the streams, waits briefly for other requests, and frees the port. */
  close(): Promise<void>;
}

export async function listen({ app, host, port }: ListenOptions): Promise<Listening> {
  let opened: Promise<Opened> | undefined;
  let ready: Opened | undefined;
  const open = (): Promise<Opened> => {
    opened ??= openApp(app, host).then(
      (result) => (ready = result),
      (error: unknown) => {
        // The next request tries again: the cause may pass, such as a lack of file descriptors.
        opened = undefined;
        throw error;
      },
    );
    return opened;
  };
  const server = createServer((incoming, outgoing) => {
    if (ready) return void ready.answer(incoming, outgoing);
    if ("load" in app && answerHealth(incoming, outgoing, app)) return;
    open().then(
      ({ answer }) => answer(incoming, outgoing),
      () => outgoing.writeHead(503, { "retry-after": "1" }).end(),
    );
  });
  const endUpgraded = acceptUpgrades(server, async () => (await open()).app);
  if (!("load" in app)) await open();
  // No limit: a large upload may take long. Headers have a timeout of their own.
  server.requestTimeout = 0;
  // Longer than the idle timeout of common proxies, so that the proxy closes first.
  server.keepAliveTimeout = 75_000;
  server.on("request", discardUnread);
  const closeUnused = trackUnused(server);
  await bind(server, host, port);
  const bound = (server.address() as AddressInfo).port;
  const name = host.includes(":") ? `[${host}]` : host;
  return {
    url: `http://${name}:${bound}`,
    port: bound,
    load: async () => void (await open()),
    close: async () => {
      const current = (await opened?.catch(() => undefined))?.app;
      endUpgraded();
      await close(server, current, closeUnused);
    },
  };
}

interface Opened {
  readonly app: App;
  readonly answer: (incoming: IncomingMessage, outgoing: ServerResponse) => unknown;
}

/** The import is late: the first use of Node's `Request` and `Response` takes longer than opening the log. */
async function openApp(given: ListenOptions["app"], hostname: string): Promise<Opened> {
  const { getRequestListener } = await import("@hono/node-server");
  const app = "load" in given ? await given.load() : given;
  // Hono would cut a connection with an unread body. `discardUnread` lets the client read the response first.
  return { app, answer: getRequestListener(app.fetch, { hostname, autoCleanupIncoming: false }) };
}

/** Answers a health check from this machine without the app; false if the request is none. */
function answerHealth(incoming: IncomingMessage, outgoing: ServerResponse, { version }: LateApp): boolean {
  const { method, url, headers } = incoming;
  if (method !== "GET" || headers.origin !== undefined || !isLoopback(headers.host ?? "")) return false;
  const health = toHealth(url ?? "", version);
  if (health === undefined) return false;
  const body = JSON.stringify(health);
  outgoing.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
  outgoing.end(body);
  return true;
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
 * Discards the rest of a body that was answered before its end, such as one that is too large, and closes the
 * connection after a while. Closing at once would reset it before the client reads the response.
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

/**
 * Returns a function that closes the connections without any request. Browsers and undici open them in advance, and
 * Node does not count them as idle.
 */
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

async function close(server: Server, app: App | undefined, closeUnused: () => void): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  app?.cutStreams();
  closeUnused();
  server.closeIdleConnections();
  const timer = setTimeout(() => server.closeAllConnections(), GRACE_MS);
  await closed;
  clearTimeout(timer);
}
