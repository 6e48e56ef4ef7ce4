import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { link, mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { createListener } from "./listener.ts";
import type { Desk, ToolAccess, ToolRun, ToolRuns } from "./port.ts";
import { tokenOf, toRunPath } from "./token.ts";

export interface ToolServerOptions {
  /** The folder of the key and the port numbers. */
  readonly folder: string;
  readonly runs: ToolRuns;
  /** Gives the model gateways their keys. */
  readonly desk?: Desk;
  /** The time that a request waits for the result of a call. */
  readonly patienceMs?: number;
}

export interface ToolServer {
  /** Gives a new run access to its tools. */
  open(run: ToolRun): Promise<ToolAccess>;
  /** Reopens the access of a run from an earlier engine on this folder; returns its token. */
  reopen(run: ToolRun): Promise<string>;
  close(): Promise<void>;
}

const LOOPBACK = "127.0.0.1";
const PATIENCE_MS = 25_000;

/** The tool server of all runs. It begins to listen with the first run that has tools. */
export function createToolServer(options: ToolServerOptions): ToolServer {
  return new LoopbackToolServer(options);
}

class LoopbackToolServer implements ToolServer {
  readonly #options: ToolServerOptions;
  readonly #servers = new Map<number, Server>();
  #key: Promise<Buffer> | undefined;
  /** The last task. Tasks run one at a time, so that two do not both choose a port. */
  #last: Promise<unknown> = Promise.resolve();
  #closed = false;

  constructor(options: ToolServerOptions) {
    this.#options = options;
  }

  async open(run: ToolRun): Promise<ToolAccess> {
    const key = await this.#readKey();
    const port = await this.#exclusive(() => this.#ownPort(key));
    const host = `${LOOPBACK}:${port}`;
    return { url: `http://${host}${toRunPath(run)}`, token: tokenOf(key, run), host };
  }

  async reopen(run: ToolRun): Promise<string> {
    const key = await this.#readKey();
    await this.#exclusive(() => this.#takeOver(key));
    return tokenOf(key, run);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#last;
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
    const reused = latest === undefined ? undefined : await this.#listen(latest, key);
    // Port 0 lets the kernel choose a free one.
    const port = reused ?? (await this.#listen(0, key));
    if (port === undefined) throw new Error("no port of 127.0.0.1 can be listened on");
    await rememberPort(this.#options.folder, port);
    return port;
  }

  /** Listens on every free port of earlier engines, because the run may use any of them. */
  async #takeOver(key: Buffer): Promise<void> {
    for (const port of await readPorts(this.#options.folder)) {
      if (!this.#servers.has(port)) await this.#listen(port, key);
    }
  }

  /** Listens on a port; undefined where the port is taken. */
  async #listen(port: number, key: Buffer): Promise<number | undefined> {
    if (this.#closed) throw new Error("the tool server is closed");
    const { runs, desk, patienceMs = PATIENCE_MS } = this.#options;
    const server = await bind(createListener({ key, runs, desk, patienceMs }), port);
    if (!server) return undefined;
    const { port: bound } = server.address() as AddressInfo;
    this.#servers.set(bound, server);
    return bound;
  }

  #exclusive<T>(task: () => Promise<T>): Promise<T> {
    const result = this.#last.then(task);
    this.#last = result.catch(() => {});
    return result;
  }
}

async function bind(listener: RequestListener, port: number): Promise<Server | undefined> {
  const server = createServer(listener);
  // The engine's own work keeps the process alive; the tool server alone does not.
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

/** The maximum count of remembered ports. A run whose port is forgotten loses its tools. */
const MOST_PORTS = 8;

/** The ports of earlier engines on this folder, the latest first. Their runs still use them. */
async function readPorts(folder: string): Promise<number[]> {
  const names = await readdir(portsFolder(folder)).catch(() => []);
  const found = await Promise.all(
    names
      .map(Number)
      .filter(isPort)
      .map(async (port) => {
        const { mtimeMs = 0 } = (await stat(portFile(folder, port)).catch(() => undefined)) ?? {};
        return { port, mtimeMs };
      }),
  );
  return found.toSorted((one, other) => other.mtimeMs - one.mtimeMs).map(({ port }) => port);
}

/** Writes a file per port, so that two engines at the same time do not overwrite each other's. */
async function rememberPort(folder: string, port: number): Promise<void> {
  await mkdir(portsFolder(folder), { recursive: true, mode: 0o700 });
  await writeFile(portFile(folder, port), "", { mode: 0o600 });
  const old = (await readPorts(folder)).slice(MOST_PORTS);
  await Promise.all(old.map((forgotten) => rm(portFile(folder, forgotten), { force: true })));
}

function portsFolder(folder: string): string {
  return join(folder, "ports");
}

function portFile(folder: string, port: number): string {
  return join(portsFolder(folder), String(port));
}

function isPort(value: number): boolean {
  return Number.isInteger(value) && value > 0 && value < 65_536;
}

const KEY_BYTES = 32;

/** The secret of a data folder, made on first use. Two engines that start at the same time get the same one. */
export async function readKey(folder: string): Promise<Buffer> {
  const path = join(folder, "key");
  const known = await readFile(path).catch(() => undefined);
  if (known?.length === KEY_BYTES) return known;
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const fresh = `${path}.${randomBytes(6).toString("hex")}`;
  await writeFile(fresh, randomBytes(KEY_BYTES), { mode: 0o600, flag: "wx" });
  try {
    // A link publishes the whole file at once, and never replaces the key of another engine.
    await link(fresh, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  } finally {
    await rm(fresh, { force: true });
  }
  const key = await readFile(path);
  if (key.length !== KEY_BYTES) throw new Error(`${path} is damaged; remove it and start again`);
  return key;
}
