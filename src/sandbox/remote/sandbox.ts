import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { pipeline } from "node:stream/promises";
import { SluiceError, type GatewayAccess, type Programs } from "../../contract/index.ts";
import type { Spool } from "../../spool/index.ts";
import type {
  ExecOptions,
  ExecResult,
  NamedProcess,
  ReachedName,
  Sandbox,
  SandboxPaths,
  SandboxProcesses,
  SandboxState,
} from "../port.ts";
import type { SandboxFacts } from "../runner/sandboxes.ts";
import type { SandboxCalls } from "./calls.ts";
import { isUnreachable } from "./client.ts";
import { RemoteFiles } from "./files.ts";
import { OwnPrograms } from "./programs.ts";
import { Reach, RemoteGateway } from "./reach.ts";
import { isMissing, RemoteSpool } from "./spool.ts";
import { RemoteTree } from "./tree.ts";

/** A machine of a vendor. It has no pause of its own where these have none: the runner's would not stop the costs. */
export interface MachineControl {
  isGone(): boolean;
  state(): Promise<SandboxState>;
  touch(): Promise<void>;
  readonly pause?: () => Promise<void>;
  readonly resume?: () => Promise<void>;
}

interface RemoteSandboxOptions {
  readonly provider: string;
  readonly isolated: boolean;
  /** Removes the machine instead of the sandbox on it. */
  readonly remove?: () => Promise<void>;
  readonly machine?: MachineControl;
  readonly facts: SandboxFacts;
  readonly shortcomings: readonly string[];
  readonly calls: SandboxCalls;
  readonly programs: OwnPrograms;
  /** The folder of the records of sandboxes on other machines. */
  readonly records: string;
  /** Called when the sandbox is removed from its machine. */
  readonly destroyed: () => Promise<void>;
}

/** A sandbox on another machine, behind the runner there. */
export class RemoteSandbox implements Sandbox {
  readonly id: string;
  readonly provider: string;
  readonly isolated: boolean;
  readonly paths: SandboxPaths;
  readonly facts: SandboxFacts;
  readonly shortcomings: readonly string[];
  readonly files: RemoteFiles;
  readonly processes: SandboxProcesses;
  readonly tree: RemoteTree;
  readonly gateway: GatewayAccess;
  readonly touch?: () => Promise<void>;
  readonly pause?: () => Promise<void>;
  readonly resume?: () => Promise<void>;
  readonly #options: RemoteSandboxOptions;
  readonly #ports = new Map<number, Promise<Server>>();
  readonly #reach: Reach;
  readonly #gateway: RemoteGateway;

  constructor(options: RemoteSandboxOptions) {
    const { provider, facts, calls, programs, records } = options;
    this.id = facts.id;
    this.provider = provider;
    this.isolated = options.isolated;
    this.paths = facts.paths;
    this.facts = facts;
    this.shortcomings = options.shortcomings;
    this.files = new RemoteFiles(calls);
    this.tree = new RemoteTree(calls);
    this.#reach = new Reach(calls);
    const folder = RemoteGateway.folderOf(records, facts.id);
    this.#gateway = new RemoteGateway({ folder, port: facts.gateway, reach: this.#reach });
    this.gateway = this.#gateway.access;
    this.processes = new RemoteProcesses(calls, programs, this.#gateway);
    this.#options = options;
    const { machine } = options;
    const { pause, resume } = machine ?? (facts.canPause ? runnerPause(calls) : {});
    if (pause) this.pause = pause;
    if (resume) this.resume = resume;
    if (machine) this.touch = () => machine.touch();
  }

  get isGone(): boolean {
    return this.#options.machine?.isGone() ?? false;
  }

  /** Opens what an agent of an earlier server needs. */
  resumeGateway(): Promise<void> {
    return this.#gateway.resume();
  }

  reach(name: ReachedName, port: number): Promise<string> {
    return this.#reach.reach(name, port);
  }

  programs(names: readonly string[]): Promise<Programs> {
    return this.#options.programs.find(names);
  }

  async state(): Promise<SandboxState> {
    const { machine } = this.#options;
    if (machine) return machine.state();
    try {
      await this.#options.calls.once("facts");
      return "running";
    } catch (error) {
      if (isMissing(error)) return "gone";
      return isUnreachable(error) ? "unreachable" : "running";
    }
  }

  verdict(): Promise<string | undefined> {
    return this.#options.calls.repeat("verdict");
  }

  killAll(): Promise<void> {
    return this.#options.calls.repeat("kill", {}, { silenceMs: 60_000 });
  }

  async exec(command: string, options: ExecOptions = {}): Promise<ExecResult> {
    const { signal, input, ...rest } = options;
    signal?.throwIfAborted();
    const given = input === undefined ? {} : { input: Buffer.from(input).toString("base64") };
    const silenceMs = (options.timeoutMs ?? 3_600_000) + 30_000;
    return this.#options.calls.once("exec", { command, ...rest, ...given }, { signal, silenceMs });
  }

  /** A listener on this machine whose connections go to the port there. */
  async host(port: number): Promise<URL> {
    if (!Number.isInteger(port) || port < 1 || port > 65_535)
      throw new SluiceError("invalid_request", `${port} is no port; give a number from 1 to 65535.`, {
        port,
      });
    const opening = this.#ports.get(port) ?? this.#open(port);
    this.#ports.set(port, opening);
    const { port: here } = (await opening).address() as AddressInfo;
    return new URL(`http://127.0.0.1:${here}`);
  }

  async release(): Promise<void> {
    const servers = await Promise.all(this.#ports.values());
    this.#ports.clear();
    for (const server of servers) server.close();
    this.#reach.close();
    this.#gateway.close();
  }

  async destroy(): Promise<void> {
    await this.release();
    const { calls, remove } = this.#options;
    const removing = remove?.() ?? calls.repeat<void>("destroy", {}, { silenceMs: 120_000 });
    await removing.catch((error: unknown) => {
      if (!isMissing(error)) throw error;
    });
    await this.#gateway.forget();
    await this.#options.destroyed();
  }

  #open(port: number): Promise<Server> {
    const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
      client.on("error", () => client.destroy());
      this.#serve(client, port).catch((error: unknown) => refuse(client, port, error));
    });
    server.maxConnections = 512;
    server.unref();
    return new Promise((resolve, reject) => {
      server.once("error", reject).listen({ host: "127.0.0.1", port: 0 }, () => resolve(server));
    });
  }

  async #serve(client: Socket, port: number): Promise<void> {
    const far = await this.#options.calls.connect(port);
    await pipeline(client, far, client).catch(() => {});
    far.destroy();
    client.destroy();
  }
}

function runnerPause(calls: SandboxCalls): Pick<MachineControl, "pause" | "resume"> {
  return { pause: () => calls.repeat("pause"), resume: () => calls.repeat("resume") };
}

function refuse(client: Socket, port: number, error: unknown): void {
  const text = `sluice: nothing answers on port ${port} inside the sandbox: ${(error as Error).message}.\n`;
  const length = Buffer.byteLength(text);
  client.end(
    `HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: ${length}\r\n\r\n${text}`,
  );
}

class RemoteProcesses implements SandboxProcesses {
  readonly #calls: SandboxCalls;
  readonly #programs: OwnPrograms;
  readonly #gateway: RemoteGateway;

  constructor(calls: SandboxCalls, programs: OwnPrograms, gateway: RemoteGateway) {
    this.#calls = calls;
    this.#programs = programs;
    this.#gateway = gateway;
  }

  async start({ name, launch, streams, input }: NamedProcess): Promise<Spool> {
    await this.#programs.upload();
    if (launch.gateway) await this.#gateway.start(launch.gateway);
    // The other fields of a launch are for the server's own machine.
    const { argv, env, files } = launch;
    const given = input === undefined ? {} : { input: Buffer.from(input).toString("base64") };
    await this.#calls.repeat("start", { name, streams, launch: { argv, env, files }, ...given });
    return new RemoteSpool(this.#calls, name);
  }

  async open(name: string): Promise<Spool | undefined> {
    try {
      await this.#calls.repeat("state", { name });
      return new RemoteSpool(this.#calls, name);
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }

  signal(name: string, signal: NodeJS.Signals): Promise<void> {
    return this.#calls.repeat("signal", { name, signal });
  }
}
