import { existsSync, mkdirSync } from "node:fs";
import { once } from "node:events";
import { rm } from "node:fs/promises";
import type { Server } from "node:http";
import { connect, type AddressInfo } from "node:net";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import type { GatewayAccess, GatewayLaunch } from "../../contract/process.ts";
import { openTape } from "../../gateway/cassette/tape.ts";
import { openRecords } from "../../gateway/record.ts";
import { createResolve } from "../egress/host/dial.ts";
import { createModelGateway } from "../egress/host/gateway.ts";
import { keepGateway, findGateway, toRecordsFile } from "../egress/gateway.ts";
import { toFolderName } from "../host/folder.ts";
import type { ReachedName } from "../port.ts";
import type { SandboxCalls } from "./calls.ts";
import { unbroken } from "./spool.ts";

const LOOPBACK = "127.0.0.1";
/** The most connections of one sandbox to the listeners of this server. */
const MOST_OPEN = 256;

/** The listeners of this server that processes on another machine reach: connections there are carried to them. */
export class Reach {
  readonly #calls: SandboxCalls;
  readonly #targets = new Map<ReachedName, number>();
  readonly #abort = new AbortController();
  #open = 0;

  constructor(calls: SandboxCalls) {
    this.#calls = calls;
  }

  async reach(name: ReachedName, port: number): Promise<string> {
    const there = await this.#calls.repeat<number>("listen", { name });
    this.carry(name, port);
    return `${LOOPBACK}:${there}`;
  }

  /** Carries connections of this name from now on. */
  carry(name: ReachedName, port: number): void {
    const isNew = !this.#targets.has(name);
    this.#targets.set(name, port);
    if (isNew) void this.#carry(name).catch(() => this.#targets.delete(name));
  }

  close(): void {
    this.#abort.abort();
    this.#targets.clear();
  }

  async #carry(name: ReachedName): Promise<void> {
    const { signal } = this.#abort;
    const open = (): AsyncIterable<unknown> => this.#calls.lines("accept", { name }, signal);
    for await (const line of unbroken<{ connection?: unknown }>(open, signal)) {
      if (line === "lost") return void this.#targets.delete(name);
      const { connection } = line;
      if (typeof connection !== "string" || !/^\d{1,12}$/.test(connection)) continue;
      if (this.#open >= MOST_OPEN) continue;
      void this.#join(connection, name);
    }
  }

  async #join(connection: string, name: ReachedName): Promise<void> {
    this.#open += 1;
    try {
      const far = await this.#calls.accept(connection);
      const near = connect({ host: LOOPBACK, port: this.#targets.get(name) ?? 0, allowHalfOpen: true });
      const end = (): void => (near.destroy(), void far.destroy());
      this.#abort.signal.addEventListener("abort", end, { once: true });
      await pipeline(far, near, far)
        .catch(() => {})
        .finally(end);
      this.#abort.signal.removeEventListener("abort", end);
    } catch {
      // The connection there is gone, or its program tries again.
    } finally {
      this.#open -= 1;
    }
  }
}

/** The model gateway of a sandbox on another machine. It runs in this server, and the key with it. */
export class RemoteGateway {
  readonly access: GatewayAccess;
  readonly #folder: string;
  readonly #port: number;
  readonly #reach: Reach;
  #server: Server | undefined;
  #launch = "";

  constructor({ folder, port, reach }: { folder: string; port: number; reach: Reach }) {
    this.#folder = folder;
    this.#reach = reach;
    const host = `${LOOPBACK}:${port}`;
    this.access = {
      url: async () => `http://${host}`,
      host,
      records: toRecordsFile(folder),
      sharesNetwork: true,
    };
    this.#port = port;
  }

  static folderOf(records: string, id: string): string {
    return join(records, "gateways", toFolderName(id));
  }

  /** Starts the gateway of an agent that an earlier server started. */
  async resume(): Promise<void> {
    const launch = existsSync(this.#folder) ? findGateway(this.#folder) : undefined;
    if (launch) await this.start(launch);
  }

  async start(launch: GatewayLaunch): Promise<void> {
    const text = JSON.stringify(launch);
    if (this.#launch === text) return;
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    keepGateway(this.#folder, launch);
    this.close();
    this.#launch = text;
    const records = openRecords(this.access.records);
    records.write({ type: "boot", time: Date.now() });
    const server = createModelGateway(
      { launch, records: this.access.records, port: this.#port },
      {
        resolve: createResolve(),
        records,
        tape: openCassette(launch),
      },
    );
    this.#server = server;
    server.once("close", () => records.close());
    server.unref();
    server.listen({ host: LOOPBACK, port: 0 });
    await once(server, "listening");
    this.#reach.carry("gateway", (server.address() as AddressInfo).port);
  }

  close(): void {
    this.#server?.close();
    this.#server?.closeAllConnections();
    this.#server = undefined;
    this.#launch = "";
  }

  async forget(): Promise<void> {
    this.close();
    await rm(this.#folder, { recursive: true, force: true });
  }
}

function openCassette({ cassette }: GatewayLaunch): ReturnType<typeof openTape> | Error | undefined {
  try {
    return cassette && openTape(cassette);
  } catch (error) {
    return error as Error;
  }
}
