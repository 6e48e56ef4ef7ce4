import http from "node:http";
import https from "node:https";
import type { Socket } from "node:net";
import type { ConnectionOptions } from "node:tls";
import { callbackify } from "node:util";
import { openConnection } from "./tunnel.ts";

const open = callbackify(openConnection);

// For versions of Node that know no proxy: their fetch and their default agents take the way out. Nothing else is touched.
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

/** When fetch is first used, since loading it takes longer than most programs run. */
function routeFetch(proxy: URL): void {
  const original = globalThis.fetch;
  const key = Symbol.for("undici.globalDispatcher.1");
  const holder = globalThis as unknown as Record<symbol, object | undefined>;
  globalThis.fetch = (...args) => {
    if (globalThis.fetch !== original) globalThis.fetch = original;
    // Naming it loads it.
    void globalThis.Headers;
    const Agent = holder[key]?.constructor as (new (options: object) => object) | undefined;
    // A program that has chosen a dispatcher of its own keeps it.
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
