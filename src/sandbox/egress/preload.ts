import http from "node:http";
import https from "node:https";
import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls, type ConnectionOptions } from "node:tls";
import { callbackify } from "node:util";
import { isLoopbackHost, readHead, toAuthority } from "./connection.ts";

const open = callbackify(openConnection);

// Makes fetch and the default agents use the proxy, in versions of Node that have no support for proxies.
const proxy = process.env["HTTPS_PROXY"] ?? process.env["https_proxy"];
if (proxy !== undefined && !knowsProxies() && URL.canParse(proxy)) {
  routeFetch(new URL(proxy));
  routeAgent(http.globalAgent, new URL(proxy), false);
  routeAgent(https.globalAgent, new URL(proxy), true);
}

type Done = (error: Error | null, socket: Socket) => void;

interface FetchTarget {
  readonly hostname: string;
  readonly port?: string;
  readonly protocol: string;
  readonly servername?: string | null;
}

function knowsProxies(): boolean {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  return major >= 24 || (major === 22 && minor >= 21);
}

/** Takes effect on the first use of fetch: to load it takes longer than most programs run. */
function routeFetch(proxy: URL): void {
  const original = globalThis.fetch;
  const key = Symbol.for("undici.globalDispatcher.1");
  const holder = globalThis as unknown as Record<symbol, object | undefined>;
  globalThis.fetch = (...args) => {
    if (globalThis.fetch !== original) globalThis.fetch = original;
    // Access to `Headers` loads fetch, and with it the global dispatcher.
    void globalThis.Headers;
    const Agent = holder[key]?.constructor as (new (options: object) => object) | undefined;
    // A program with a dispatcher of its own keeps it.
    if (Agent?.name === "Agent") holder[key] = new Agent({ connect: toConnector(proxy) });
    return original(...args);
  };
}

function toConnector(proxy: URL): (target: FetchTarget, done: Done) => void {
  return ({ hostname, port, protocol, servername }, done) => {
    const secure = protocol === "https:";
    const host = hostname.replace(/^\[|\]$/g, "");
    const target = { host, port: Number(port) || (secure ? 443 : 80) };
    const tls = { servername: servername ?? host, ALPNProtocols: ["http/1.1"] };
    open(secure ? { ...target, tls } : target, proxy, done);
  };
}

function routeAgent(agent: http.Agent, proxy: URL, secure: boolean): void {
  const original = (agent as unknown as Connecting).createConnection;
  (agent as unknown as Connecting).createConnection = function (options, done) {
    const { host, port, socketPath } = options;
    if (socketPath || host === undefined) return original.call(this, options, done);
    const target = { host, port: Number(port) || (secure ? 443 : 80) };
    const tls = { servername: host, ...(options as ConnectionOptions) };
    open(secure ? { ...target, tls } : target, proxy, done);
    return undefined;
  };
}

interface Connecting {
  createConnection(
    options: { host?: string; port?: number | string; socketPath?: string },
    done: Done,
  ): Socket | undefined;
}

interface Target {
  readonly host: string;
  readonly port: number;
  /** Present for https. */
  readonly tls?: ConnectionOptions;
}

/** Opens a connection as Node would, but through the proxy, unless it goes to loopback. */
async function openConnection(target: Target, proxy: URL): Promise<Socket> {
  const socket = await connectPlain(
    isLoopbackHost(target.host) ? target : { host: proxy.hostname, port: Number(proxy.port) },
  );
  if (!isLoopbackHost(target.host)) await askFor(target, socket);
  if (target.tls === undefined) return socket;
  const secure = connectTls({ ...target.tls, socket });
  return new Promise((resolve, reject) => {
    secure.once("error", reject).once("secureConnect", () => resolve(secure.off("error", reject)));
  });
}

async function askFor({ host, port }: Target, socket: Socket): Promise<void> {
  const authority = toAuthority(host, port);
  socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`);
  const head = await readHead(socket, { terminator: "\r\n\r\n", limit: 4_096, timeoutMs: 60_000 });
  if (head.startsWith("HTTP/1.1 200 ")) return;
  const text = String(socket.read() ?? "").trim();
  socket.destroy();
  throw new Error(text === "" ? `the proxy answered ${head.split("\r\n")[0]}` : text);
}

function connectPlain({ host, port }: Target): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connectTcp({ host, port, noDelay: true });
    socket.once("error", reject).once("connect", () => resolve(socket.off("error", reject)));
  });
}
