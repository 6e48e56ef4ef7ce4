import { once } from "node:events";
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { SluiceError } from "../../contract/index.ts";
import { toFolderName } from "../host/folder.ts";

const LOOPBACK = "127.0.0.1";
/** How long a connection waits for a server: longer than a restart takes. */
const WAIT_MS = 120_000;
const MOST_WAITING = 128;
/** How often a port is tried that another runner still has. */
const AGAIN_MS = 500;

/** Ports of this machine's loopback that stand for listeners of the server. They keep their numbers. */
export class RunnerListeners {
  readonly #root: string;
  readonly #open = new Map<string, Listener>();

  constructor(root: string) {
    this.#root = root;
  }

  /** The port of this name, on which connections wait for the server. */
  async port(id: string, name: string): Promise<number> {
    const listener = this.#listener(id, name);
    await listener.listen();
    return listener.port as number;
  }

  /** The ids of connections that wait, one after the other. */
  async *connections(id: string, name: string, signal: AbortSignal): AsyncGenerator<unknown, void> {
    const listener = this.#listener(id, name);
    while (!signal.aborted) {
      const isListening = await listener.listen().catch(() => undefined);
      for (const connection of listener.unannounced()) yield { connection };
      if (isListening) await listener.moved(signal);
      else await sleep(AGAIN_MS, undefined, { signal }).catch(() => {});
    }
  }

  /** Hands a waiting connection over. */
  claim(id: string, connection: string): Duplex {
    for (const [key, listener] of this.#open) {
      if (!key.startsWith(`${id}/`)) continue;
      const socket = listener.claim(connection);
      if (socket) return socket;
    }
    throw new SluiceError("not_found", "This connection does not wait any more.");
  }

  async forget(id: string): Promise<void> {
    for (const [key, listener] of this.#open) {
      if (!key.startsWith(`${id}/`)) continue;
      listener.close();
      this.#open.delete(key);
    }
    await rm(this.#file(id), { force: true });
  }

  #listener(id: string, name: string): Listener {
    if (!/^[a-z]{1,32}$/.test(name))
      throw new SluiceError("invalid_request", `"${name}" is no name of a listener.`);
    const key = `${id}/${name}`;
    const known = this.#open.get(key);
    if (known) return known;
    const listener = new Listener(this.#readPorts(id)[name], (port) => this.#keep(id, name, port));
    this.#open.set(key, listener);
    return listener;
  }

  #readPorts(id: string): Record<string, number> {
    try {
      return JSON.parse(readFileSync(this.#file(id), "utf8")) as Record<string, number>;
    } catch {
      return {};
    }
  }

  #keep(id: string, name: string, port: number): void {
    mkdirSync(join(this.#root, "ports"), { recursive: true, mode: 0o700 });
    const file = this.#file(id);
    writeFileSync(`${file}.new`, JSON.stringify({ ...this.#readPorts(id), [name]: port }), { mode: 0o600 });
    renameSync(`${file}.new`, file);
  }

  #file(id: string): string {
    return join(this.#root, "ports", toFolderName(id));
  }
}

class Listener {
  port: number | undefined;
  readonly #keep: (port: number) => void;
  readonly #waiting = new Map<string, { socket: Socket; timer: NodeJS.Timeout }>();
  readonly #fresh: string[] = [];
  #server: Promise<Server> | undefined;
  #count = 0;
  #wake: (() => void) | undefined;

  constructor(port: number | undefined, keep: (port: number) => void) {
    this.port = port;
    this.#keep = keep;
  }

  async listen(): Promise<true> {
    this.#server ??= this.#bind();
    this.#server.catch(() => (this.#server = undefined));
    await this.#server;
    return true;
  }

  /** Connections that no server was told of. A new server is told of all. */
  unannounced(): string[] {
    return this.#fresh.splice(0).filter((id) => this.#waiting.has(id));
  }

  async moved(signal: AbortSignal): Promise<void> {
    if (this.#fresh.length > 0) return;
    // The server that was told of a connection may be gone: the next one hears of it again.
    signal.addEventListener("abort", () => this.#retell(), { once: true });
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }

  claim(id: string): Socket | undefined {
    const found = this.#waiting.get(id);
    if (!found) return undefined;
    this.#waiting.delete(id);
    clearTimeout(found.timer);
    found.socket.removeAllListeners("close");
    return found.socket;
  }

  close(): void {
    for (const { socket, timer } of this.#waiting.values()) {
      clearTimeout(timer);
      socket.destroy();
    }
    this.#waiting.clear();
    this.#server?.then(
      (server) => server.close(),
      () => {},
    );
  }

  async #bind(): Promise<Server> {
    const server = createServer({ allowHalfOpen: true, pauseOnConnect: true, noDelay: true }, (socket) =>
      this.#add(socket),
    );
    server.listen({ host: LOOPBACK, port: this.port ?? 0 });
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    if (this.port === undefined) this.#keep(port);
    this.port = port;
    return server;
  }

  #add(socket: Socket): void {
    socket.on("error", () => socket.destroy());
    if (this.#waiting.size >= MOST_WAITING) return void socket.destroy();
    const id = String((this.#count += 1));
    const timer = setTimeout(() => socket.destroy(), WAIT_MS);
    this.#waiting.set(id, { socket, timer });
    socket.on("close", () => {
      clearTimeout(timer);
      this.#waiting.delete(id);
    });
    this.#fresh.push(id);
    this.#wake?.();
  }

  #retell(): void {
    this.#fresh.splice(0, this.#fresh.length, ...this.#waiting.keys());
  }
}
