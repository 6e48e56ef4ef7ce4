import type { ConnectionOpts, Sandbox } from "e2b";
import { SluiceError } from "../../contract/index.ts";
import { refuseNetwork } from "../cloud/network.ts";
import {
  detectBy,
  loadSdk,
  toUnreachable,
  type EdgeMachine,
  type Machine,
  type MachineAddress,
  type Vendor,
} from "../cloud/vendor.ts";
import type { Detected, SandboxSpec } from "../port.ts";
import { toE2bNetwork } from "./network.ts";

/** E2B lets a machine of the free plan run for an hour. */
const TIMEOUT_MS = 3_600_000;
/** The key in the metadata of a machine. */
const LABEL = "sluice-sandbox";

type Sdk = Pick<typeof import("e2b"), "Sandbox" | "SandboxNotFoundError" | "CommandExitError">;

export interface E2bOptions {
  /** The template of sandboxes whose session names no image; by default that of SLUICE_E2B_TEMPLATE, or `base`. */
  readonly template?: string;
  /** How long a machine runs without a server before E2B puts it to sleep. */
  readonly timeoutMs?: number;
  /** The environment with E2B_API_KEY, E2B_DOMAIN, E2B_API_URL and E2B_SANDBOX_URL. */
  readonly env?: NodeJS.ProcessEnv;
}

export class E2bVendor implements Vendor {
  readonly id = "e2b";
  readonly title = "E2B";
  readonly account: string;
  readonly renewMs: number;
  readonly shortcomings: readonly string[];
  readonly #options: E2bOptions;
  readonly #env: NodeJS.ProcessEnv;

  constructor(options: E2bOptions) {
    this.#options = options;
    this.#env = options.env ?? process.env;
    this.account = this.#set("E2B_API_URL") ?? this.#set("E2B_DOMAIN") ?? "e2b.app";
    this.renewMs = this.#timeoutMs / 4;
    const minutes = Math.round(this.#timeoutMs / 60_000);
    this.shortcomings = [
      `the machine sleeps after ${minutes} minutes without use or without a server, and at the end of its plan's longest run (E2B: 1 hour or 24 hours); it goes on with all its processes when it is needed`,
    ];
  }

  detect(): Promise<Detected> {
    return detectBy(() => this.check());
  }

  refuse({ network }: Pick<SandboxSpec, "network">): void {
    refuseNetwork(this.id, network);
  }

  async check(): Promise<void> {
    const { Sandbox } = await this.#sdk();
    try {
      await Sandbox.list({ ...this.#connection(), limit: 1 }).nextItems();
    } catch (error) {
      throw this.#refused(error) ?? this.toError(error);
    }
  }

  async find(sandbox: string): Promise<string | undefined> {
    const { Sandbox } = await this.#sdk();
    const query = { metadata: { [LABEL]: sandbox } };
    const pages = Sandbox.list({ ...this.#connection(), query, limit: 10 });
    const found = await pages.nextItems();
    return found.find(({ metadata }) => metadata[LABEL] === sandbox)?.sandboxId;
  }

  async create({ id, session, image, network }: SandboxSpec): Promise<string> {
    const { Sandbox } = await this.#sdk();
    const template = image ?? this.#options.template ?? this.#set("SLUICE_E2B_TEMPLATE") ?? "base";
    try {
      const { sandboxId } = await Sandbox.create(template, {
        ...this.#connection(),
        timeoutMs: this.#timeoutMs,
        metadata: { [LABEL]: id, ...(session === undefined ? {} : { "sluice-session": session }) },
        secure: true,
        // No port of the machine answers without the token of E2B, and the runner not without its own.
        network: { ...toE2bNetwork(network), allowPublicTraffic: false },
        lifecycle: { onTimeout: "pause", autoResume: false },
      });
      return sandboxId;
    } catch (error) {
      throw this.#refused(error) ?? this.toError(error);
    }
  }

  machine(id: string): Machine {
    const sdk = (): Promise<Sdk> => this.#sdk();
    const connection = (): ConnectionOpts => this.#connection();
    const url = this.#set("E2B_SANDBOX_URL");
    return new E2bMachine({ id, sdk, connection, timeoutMs: this.#timeoutMs, ...(url ? { url } : {}) });
  }

  toError(error: unknown): SluiceError {
    return toUnreachable(this.title, error);
  }

  /** What a later try would not change. */
  #refused(error: unknown): SluiceError | undefined {
    const {
      name,
      message = "",
      statusCode,
    } = error as { name?: string; message?: string; statusCode?: number };
    if (name === "AuthenticationError") {
      const detail = `E2B refuses the key of E2B_API_KEY at ${this.account}: ${message.slice(0, 300)}`;
      return new SluiceError("permission_denied", detail, {}, { cause: error });
    }
    if (name !== "SandboxError" || ![400, 403, 404, 422].includes(statusCode ?? 0)) return undefined;
    const detail = `E2B refuses the sandbox: ${message.slice(0, 500)}`;
    return new SluiceError("invalid_request", detail, {}, { cause: error });
  }

  #connection(): ConnectionOpts {
    const [domain, apiUrl, sandboxUrl] = ["E2B_DOMAIN", "E2B_API_URL", "E2B_SANDBOX_URL"].map((name) =>
      this.#set(name),
    );
    return {
      apiKey: this.#key(),
      debug: false,
      ...(domain ? { domain } : {}),
      ...(apiUrl ? { apiUrl } : {}),
      ...(sandboxUrl ? { sandboxUrl } : {}),
    };
  }

  #key(): string {
    const key = this.#set("E2B_API_KEY");
    if (key !== undefined) return key;
    const detail =
      "The sandbox e2b needs a key of E2B in the variable E2B_API_KEY of the server (https://e2b.dev/dashboard?tab=keys).";
    throw new SluiceError("unsupported_sandbox", detail, { remedy: "export E2B_API_KEY=e2b_…" });
  }

  async #sdk(): Promise<Sdk> {
    this.#key();
    return loadSdk<Sdk>(this.id, "e2b", () => import("e2b"));
  }

  get #timeoutMs(): number {
    return this.#options.timeoutMs ?? TIMEOUT_MS;
  }

  #set(name: string): string | undefined {
    return this.#env[name] || undefined;
  }
}

interface E2bMachineOptions {
  readonly id: string;
  readonly sdk: () => Promise<Sdk>;
  readonly connection: () => ConnectionOpts;
  readonly timeoutMs: number;
  /** E2B_SANDBOX_URL: one address for all machines, which are told apart by headers. */
  readonly url?: string;
}

class E2bMachine implements EdgeMachine {
  readonly #options: E2bMachineOptions;
  #sandbox: Promise<Sandbox> | undefined;

  constructor(options: E2bMachineOptions) {
    this.#options = options;
  }

  async state(): Promise<"running" | "asleep" | "gone"> {
    const { id, sdk, connection } = this.#options;
    const { Sandbox, SandboxNotFoundError } = await sdk();
    // Asked after a failure: another server may have woken the machine, and its tokens may be others.
    this.#sandbox = undefined;
    try {
      const { state } = await Sandbox.getInfo(id, connection());
      return state === "paused" ? "asleep" : "running";
    } catch (error) {
      if (error instanceof SandboxNotFoundError) return "gone";
      throw error;
    }
  }

  async renew(): Promise<void> {
    const { id, sdk, connection, timeoutMs } = this.#options;
    await (await sdk()).Sandbox.setTimeout(id, timeoutMs, connection());
  }

  async wake(): Promise<void> {
    this.#sandbox = undefined;
    await this.#connect();
  }

  async pause(): Promise<void> {
    const { id, sdk, connection } = this.#options;
    await (await sdk()).Sandbox.pause(id, connection());
    this.#sandbox = undefined;
  }

  async run(command: string): Promise<{ exitCode: number; output: string }> {
    const { CommandExitError } = await this.#options.sdk();
    const { commands } = await this.#connect();
    try {
      const { stdout, stderr } = await commands.run(command, { timeoutMs: 60_000 });
      return { exitCode: 0, output: `${stdout}${stderr}` };
    } catch (error) {
      if (!(error instanceof CommandExitError)) throw error;
      return { exitCode: error.exitCode, output: `${error.stdout}${error.stderr}` };
    }
  }

  async write(path: string, content: Uint8Array): Promise<void> {
    const { files } = await this.#connect();
    await files.write(path, Uint8Array.from(content).buffer);
  }

  async address(port: number): Promise<MachineAddress> {
    const sandbox = await this.#connect();
    const { trafficAccessToken: traffic, sandboxId } = sandbox;
    const { url } = this.#options;
    const host = sandbox.getHost(port);
    return {
      url: new URL(url ?? `https://${host}`),
      headers: {
        ...(traffic === undefined ? {} : { "e2b-traffic-access-token": traffic }),
        ...(url === undefined ? {} : { "E2b-Sandbox-Id": sandboxId, "E2b-Sandbox-Port": String(port), host }),
      },
    };
  }

  async remove(): Promise<void> {
    const { id, sdk, connection } = this.#options;
    await (await sdk()).Sandbox.kill(id, connection());
  }

  /** Also wakes the machine, so nobody calls it for one that sleeps and is not needed. */
  #connect(): Promise<Sandbox> {
    const { id, sdk, connection, timeoutMs } = this.#options;
    this.#sandbox ??= sdk().then(({ Sandbox }) => Sandbox.connect(id, { ...connection(), timeoutMs }));
    this.#sandbox.catch(() => (this.#sandbox = undefined));
    return this.#sandbox;
  }
}
