import { once } from "node:events";
import { createServer, type AddressInfo, type Server } from "node:net";
import type { Duplex } from "node:stream";
import type { GatewayAccess, GatewayLaunch } from "../../contract/process.ts";
import { findEgressPrograms, readOwnTrust, toKept } from "../egress/egress.ts";
import { GATEWAY_HOST, toRecordsFile } from "../egress/gateway.ts";
import { SETTINGS_VARIABLE, type HostSettings } from "../egress/protocol.ts";
import type { SandboxFolder } from "../host/folder.ts";
import type { Enclosure } from "../host/processes/enclosure.ts";
import { ID_VARIABLE, KEY_VARIABLE } from "../host/processes/environment.ts";
import { startProgram } from "../host/start.ts";

/** A descriptor that the spool's wrapper does not use. */
const TIE_FD = 8;

interface LocalGatewayOptions {
  readonly folder: SandboxFolder;
  readonly id: string;
  readonly enclosure: Enclosure;
}

/**
 * The model gateway of a sandbox without a network of its own: the egress host with the gateway alone, on a free port of
 * loopback. The port is opened here and handed over, so that no other program can take it when the gateway is killed.
 */
export class LocalGateway {
  readonly access: GatewayAccess;
  readonly #options: LocalGatewayOptions;
  /** The port of the next process. */
  #listener: Promise<Server> | undefined;

  constructor(options: LocalGatewayOptions) {
    this.#options = options;
    this.access = {
      url: async () => `http://127.0.0.1:${portOf(await this.#open())}`,
      host: GATEWAY_HOST,
      records: toRecordsFile(options.folder.path),
      sharesNetwork: true,
    };
  }

  /** Starts the gateway of a process. It ends when every holder of the returned stream has ended. */
  async start(launch: GatewayLaunch): Promise<Duplex> {
    const { folder, id, enclosure } = this.#options;
    const listener = await this.#open();
    this.#listener = undefined;
    try {
      const gateway = { launch, records: this.access.records, port: portOf(listener) };
      const settings: HostSettings = { patterns: [], graceMs: 0, gateway };
      const argv = [...(await enclosure.prefix()), ...toKept([process.execPath, findEgressPrograms().host])];
      const child = await startProgram(argv, {
        cwd: folder.path,
        env: {
          PATH: process.env["PATH"] ?? "/usr/bin:/bin",
          [ID_VARIABLE]: id,
          [KEY_VARIABLE]: folder.key,
          [SETTINGS_VARIABLE]: JSON.stringify(settings),
          ...readOwnTrust(),
        },
        stdio: ["pipe", "ignore", "ignore", descriptorOf(listener)],
      });
      child.unref();
      await enclosure.members.add(child.pid as number);
      return child.stdin as Duplex;
    } finally {
      listener.close();
    }
  }

  #open(): Promise<Server> {
    this.#listener ??= listen().catch((error: unknown) => {
      this.#listener = undefined;
      throw error;
    });
    return this.#listener;
  }
}

/** The streams after stderr of a process that holds its gateway's tie. */
export function toTieStreams(tie: Duplex | undefined): ("ignore" | Duplex)[] {
  if (tie === undefined) return [];
  return [...Array.from({ length: TIE_FD - 3 }, () => "ignore" as const), tie];
}

async function listen(): Promise<Server> {
  const server = createServer().unref();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}

/** Node has no public way to hand a listening socket to a program that is no Node program, such as the shell here. */
function descriptorOf(server: Server): number {
  return (server as unknown as { _handle: { fd: number } })._handle.fd;
}
