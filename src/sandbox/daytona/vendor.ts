import { randomUUID } from "node:crypto";
import type { CreateSandboxFromSnapshotParams, Daytona, Sandbox } from "@daytona/sdk";
import { SluiceError } from "../../contract/index.ts";
import { refuseNetwork, toOnlyHosts } from "../cloud/network.ts";
import {
  detectBy,
  loadSdk,
  toMachineName,
  toUnreachable,
  type EdgeMachine,
  type Machine,
  type MachineAddress,
  type Vendor,
} from "../cloud/vendor.ts";
import type { Detected, NetworkPolicy, SandboxSpec } from "../port.ts";

const IDLE_MINUTES = 60;
const LABEL = "sluice-sandbox";
const API_URL = "https://app.daytona.io/api";
const SECONDS = 60;

type Sdk = typeof import("@daytona/sdk");

export interface DaytonaOptions {
  /** The snapshot of sandboxes whose session names no image; by default that of SLUICE_DAYTONA_SNAPSHOT, or Daytona's. */
  readonly snapshot?: string;
  /** After how long without use Daytona stops a machine. */
  readonly idleMinutes?: number;
  /** The environment with DAYTONA_API_KEY, DAYTONA_API_URL and DAYTONA_TARGET. */
  readonly env?: NodeJS.ProcessEnv;
}

export class DaytonaVendor implements Vendor {
  readonly id = "daytona";
  readonly title = "Daytona";
  readonly account: string;
  readonly renewMs: number;
  readonly shortcomings: readonly string[];
  readonly #options: DaytonaOptions;
  readonly #env: NodeJS.ProcessEnv;
  readonly #idleMinutes: number;
  #client: Promise<Daytona> | undefined;

  constructor(options: DaytonaOptions) {
    this.#options = options;
    this.#env = options.env ?? process.env;
    this.#idleMinutes = options.idleMinutes ?? IDLE_MINUTES;
    this.account = this.#set("DAYTONA_API_URL") ?? API_URL;
    this.renewMs = (this.#idleMinutes * 60_000) / 4;
    this.shortcomings = [
      `the machine is stopped after ${this.#idleMinutes} minutes without use or without a server; its files are kept, its processes are lost`,
    ];
  }

  detect(): Promise<Detected> {
    return detectBy(() => this.check());
  }

  refuse({ network }: Pick<SandboxSpec, "network">): void {
    refuseNetwork(this.id, network);
  }

  async check(): Promise<void> {
    const client = await this.#open();
    try {
      await client.list({ limit: 1 }).next();
    } catch (error) {
      throw this.#refused(error) ?? this.toError(error);
    }
  }

  async find(sandbox: string): Promise<string | undefined> {
    return (await this.#get(toMachineName(sandbox)))?.id;
  }

  async create({ id, session, image, network }: SandboxSpec): Promise<string> {
    const client = await this.#open();
    const snapshot = image ?? this.#options.snapshot ?? this.#set("SLUICE_DAYTONA_SNAPSHOT");
    try {
      const made = await client.create({
        name: toMachineName(id),
        language: "javascript",
        labels: { [LABEL]: id, ...(session === undefined ? {} : { "sluice-session": session }) },
        public: false,
        autoStopInterval: this.#idleMinutes,
        autoDeleteInterval: -1,
        ...(snapshot === undefined ? {} : { snapshot }),
        ...toDaytonaNetwork(network),
      });
      return made.id;
    } catch (error) {
      throw this.#refused(error) ?? this.toError(error);
    }
  }

  machine(id: string): Machine {
    return new DaytonaMachine(() => this.#get(id));
  }

  toError(error: unknown): SluiceError {
    return toUnreachable(this.title, error);
  }

  /** Undefined only where the API itself says that there is none. */
  async #get(name: string): Promise<Sandbox | undefined> {
    const client = await this.#open();
    try {
      return await client.get(name);
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }

  /** What a later try would not change. */
  #refused(error: unknown): SluiceError | undefined {
    const { statusCode, message = "" } = error as { statusCode?: number; message?: string };
    if (statusCode === 401) {
      const detail = `Daytona refuses the key of DAYTONA_API_KEY at ${this.account}: ${message.slice(0, 300)}`;
      return new SluiceError("permission_denied", detail, {}, { cause: error });
    }
    if (![400, 403, 404, 422].includes(statusCode ?? 0)) return undefined;
    const detail = `Daytona refuses the sandbox: ${message.slice(0, 500)}`;
    return new SluiceError("invalid_request", detail, {}, { cause: error });
  }

  #open(): Promise<Daytona> {
    this.#client ??= this.#make();
    this.#client.catch(() => (this.#client = undefined));
    return this.#client;
  }

  async #make(): Promise<Daytona> {
    const apiKey = this.#set("DAYTONA_API_KEY");
    if (apiKey === undefined) {
      const detail =
        "The sandbox daytona needs a key of Daytona in the variable DAYTONA_API_KEY of the server (https://app.daytona.io/dashboard/keys).";
      throw new SluiceError("unsupported_sandbox", detail, { remedy: "export DAYTONA_API_KEY=dtn_…" });
    }
    const { Daytona } = await loadSdk<Sdk>(this.id, "@daytona/sdk", () => import("@daytona/sdk"));
    const target = this.#set("DAYTONA_TARGET");
    // A socket for events would keep this program from its end.
    const options = { apiKey, apiUrl: this.account, useDeprecatedPolling: true };
    return new Daytona({ ...options, ...(target === undefined ? {} : { target }) });
  }

  #set(name: string): string | undefined {
    return this.#env[name] || undefined;
  }
}

export function toDaytonaNetwork(
  network: NetworkPolicy | undefined,
): Pick<CreateSandboxFromSnapshotParams, "networkBlockAll" | "domainAllowList"> {
  const hosts = toOnlyHosts(network);
  if (hosts === undefined) return {};
  return hosts.length === 0 ? { networkBlockAll: true } : { domainAllowList: hosts.join(",") };
}

/** A proxy's 404 is a page, and names no service of Daytona. */
function isMissing(error: unknown): boolean {
  const { statusCode, source, headers } = error as {
    statusCode?: number;
    source?: string;
    headers?: Record<string, unknown>;
  };
  return statusCode === 404 && (source !== undefined || /json/.test(String(headers?.["content-type"])));
}

const ASLEEP = new Set(["stopped", "stopping", "paused", "pausing", "archived", "archiving"]);
const GONE = new Set(["destroyed", "destroying"]);

class DaytonaMachine implements EdgeMachine {
  readonly #get: () => Promise<Sandbox | undefined>;
  #sandbox: Promise<Sandbox> | undefined;
  #addresses = new Map<number, Promise<MachineAddress>>();

  constructor(get: () => Promise<Sandbox | undefined>) {
    this.#get = get;
  }

  async state(): Promise<"running" | "asleep" | "gone"> {
    // Asked after a failure: the tokens of a machine that was started again are others.
    this.#forget();
    const sandbox = await this.#get();
    const state = sandbox?.state ?? "";
    if (!sandbox || GONE.has(state)) return "gone";
    return ASLEEP.has(state) ? "asleep" : "running";
  }

  async renew(): Promise<void> {
    await (await this.#open()).refreshActivity();
  }

  async wake(): Promise<void> {
    this.#forget();
    const sandbox = await this.#open();
    if (sandbox.state !== "started") await sandbox.start(2 * SECONDS);
  }

  /** As a file: nothing then depends on how Daytona divides a command into words. */
  async run(command: string): Promise<{ exitCode: number; output: string }> {
    const file = `/tmp/sluice-${randomUUID()}.sh`;
    await this.write(file, Buffer.from(`rm -f "$0"\n${command}\n`));
    const sandbox = await this.#open();
    const { exitCode, result } = await sandbox.process.executeCommand(
      `sh -l ${file}`,
      undefined,
      undefined,
      SECONDS,
    );
    return { exitCode, output: result };
  }

  async write(path: string, content: Uint8Array): Promise<void> {
    await (await this.#open()).fs.uploadFile(Buffer.from(content), path, SECONDS);
  }

  address(port: number): Promise<MachineAddress> {
    const asking =
      this.#addresses.get(port) ??
      this.#open()
        .then((sandbox) => sandbox.getPreviewLink(port))
        .then(({ url, token }) => ({ url: new URL(url), headers: { "x-daytona-preview-token": token } }));
    this.#addresses.set(port, asking);
    asking.catch(() => this.#addresses.delete(port));
    return asking;
  }

  async remove(): Promise<void> {
    await (await this.#get())?.delete(SECONDS);
  }

  #forget(): void {
    this.#sandbox = undefined;
    this.#addresses.clear();
  }

  #open(): Promise<Sandbox> {
    this.#sandbox ??= this.#get().then((sandbox) => {
      if (sandbox) return sandbox;
      throw new Error("it has no such machine");
    });
    this.#sandbox.catch(() => (this.#sandbox = undefined));
    return this.#sandbox;
  }
}
