import { once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { readKey } from "./key.ts";
import { createListener } from "./listener.ts";
import { toRunPath } from "./paths.ts";
import { readPorts, rememberPort } from "./ports.ts";
import type { ToolAccess, ToolRun, ToolRuns } from "./port.ts";
import { tokenOf } from "./token.ts";

export interface ToolBridgeOptions {
  /** Where the key and the ports are kept. */
  readonly folder: string;
  readonly runs: ToolRuns;
  readonly patienceMs?: number;
}

export interface ToolBridge {
  /** A way to its tools for a run that starts now. */
  open(run: ToolRun): Promise<ToolAccess>;
  /** The way that a run was given by an earlier engine on this folder is there again; answers its token. */
  reopen(run: ToolRun): Promise<string>;
  close(): Promise<void>;
}

const LOOPBACK = "127.0.0.1";
const PATIENCE_MS = 25_000;

/** Listens from the first run on that has tools, and for all of them. */
export function createToolBridge(options: ToolBridgeOptions): ToolBridge {
  return new LoopbackBridge(options);
}

class LoopbackBridge implements ToolBridge {
  readonly #options: ToolBridgeOptions;
  readonly #servers = new Map<number, Server>();
  #key: Promise<Buffer> | undefined;
  /** One after the other: two must not both look for a port. */
  #listening: Promise<unknown> = Promise.resolve();
  #closed = false;

  constructor(options: ToolBridgeOptions) {
    this.#options = options;
  }

  async open(run: ToolRun): Promise<ToolAccess> {
    const key = await this.#readKey();
    const port = await this.#inTurn(() => this.#ownPort(key));
    const host = `${LOOPBACK}:${port}`;
    return { url: `http://${host}${toRunPath(run)}`, token: tokenOf(key, run), host };
  }

  async reopen(run: ToolRun): Promise<string> {
    const key = await this.#readKey();
    await this.#inTurn(() => this.#takeOver(key));
    return tokenOf(key, run);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#listening;
    const servers = [...this.#servers.values()];
    this.#servers.clear();
    await Promise.all(servers.map(end));
  }

  #readKey(): Promise<Buffer> {
    this.#key ??= readKey(this.#options.folder);
    this.#key.catch(() => (this.#key = undefined));
    return this.#key;
  }

  async #ownPort(key: Buffer): Promise<number> {
    const [known] = this.#servers.keys();
    if (known !== undefined) return known;
    const [latest] = await readPorts(this.#options.folder);
    const port = (latest !== undefined && (await this.#listen(latest, key))) || (await this.#listen(0, key));
    if (port === undefined) throw new Error("no port of 127.0.0.1 can be listened on");
    await rememberPort(this.#options.folder, port);
    return port;
  }

  /** Whose run it was is not known: every port that nobody holds any more is held from here on. */
  async #takeOver(key: Buffer): Promise<void> {
    for (const port of await readPorts(this.#options.folder)) {
      if (!this.#servers.has(port)) await this.#listen(port, key);
    }
  }

  /** undefined where somebody else has the port. */
  async #listen(port: number, key: Buffer): Promise<number | undefined> {
    if (this.#closed) throw new Error("the tool bridge is closed");
    const { runs, patienceMs = PATIENCE_MS } = this.#options;
    const server = await bind(createListener({ key, runs, patienceMs }), port);
    if (!server) return undefined;
    const { port: taken } = server.address() as AddressInfo;
    this.#servers.set(taken, server);
    return taken;
  }

  #inTurn<T>(task: () => Promise<T>): Promise<T> {
    const result = this.#listening.then(task);
    this.#listening = result.catch(() => {});
    return result;
  }
}

async function bind(listener: RequestListener, port: number): Promise<Server | undefined> {
  const server = createServer(listener);
  // The engine's own work keeps it alive; the bridge alone does not.
  server.unref();
  server.listen(port, LOOPBACK);
  try {
    await once(server, "listening");
    return server;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EADDRINUSE" || code === "EACCES") return undefined;
    throw error;
  }
}

async function end(server: Server): Promise<void> {
  const closed = once(server, "close");
  server.close();
  server.closeAllConnections();
  await closed;
}
