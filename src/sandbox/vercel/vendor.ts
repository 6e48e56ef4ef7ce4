import type { NetworkPolicy as VercelNetwork, Sandbox } from "@vercel/sandbox";
import { SluiceError } from "../../contract/index.ts";
import { refuseNetwork, toOnlyHosts } from "../cloud/network.ts";
import {
  detectBy,
  loadSdk,
  RUNNER_PORT,
  toMachineName,
  toUnreachable,
  type EdgeMachine,
  type Machine,
  type MachineAddress,
  type Vendor,
} from "../cloud/vendor.ts";
import type { Detected, NetworkPolicy, SandboxSpec } from "../port.ts";

/** Vercel lets a machine of its free plan run for 45 minutes. */
const TIMEOUT_MS = 2_700_000;
const LABEL = "sluice-sandbox";

type Sdk = typeof import("@vercel/sandbox");

export interface VercelOptions {
  /** How long a machine runs without a server before Vercel stops it. */
  readonly timeoutMs?: number;
  /** The environment with VERCEL_TOKEN, VERCEL_TEAM_ID and VERCEL_PROJECT_ID, or VERCEL_OIDC_TOKEN. */
  readonly env?: NodeJS.ProcessEnv;
  /** Carries the requests of the SDK. */
  readonly fetch?: typeof globalThis.fetch;
}

interface Access {
  readonly token?: string;
  readonly teamId?: string;
  readonly projectId?: string;
  readonly fetch?: typeof globalThis.fetch;
}

export class VercelVendor implements Vendor {
  readonly id = "vercel";
  readonly title = "Vercel";
  readonly account: string;
  readonly renewMs: number;
  readonly shortcomings: readonly string[];
  readonly #options: VercelOptions;
  readonly #env: NodeJS.ProcessEnv;

  constructor(options: VercelOptions) {
    this.#options = options;
    this.#env = options.env ?? process.env;
    this.account = this.#env["VERCEL_PROJECT_ID"] || "vercel.com";
    this.renewMs = this.#timeoutMs / 4;
    const minutes = Math.round(this.#timeoutMs / 60_000);
    this.shortcomings = [
      `the machine is stopped after ${minutes} minutes without use or without a server, and at the end of its plan's longest run; its files are kept, its processes are lost`,
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
      await Sandbox.list({ ...this.#access(), limit: 1 });
    } catch (error) {
      throw this.#refused(error) ?? this.toError(error);
    }
  }

  async find(sandbox: string): Promise<string | undefined> {
    const name = toMachineName(sandbox);
    return (await this.#get(name)) && name;
  }

  async create({ id, session, image, network }: SandboxSpec): Promise<string> {
    const { Sandbox } = await this.#sdk();
    const given = image ?? (this.#env["SLUICE_VERCEL_IMAGE"] || undefined);
    try {
      const { name } = await Sandbox.create({
        ...this.#access(),
        name: toMachineName(id),
        ports: [RUNNER_PORT],
        timeout: this.#timeoutMs,
        // Its files outlast a stop.
        persistent: true,
        networkPolicy: toVercelNetwork(network),
        tags: { [LABEL]: id, ...(session === undefined ? {} : { "sluice-session": session }) },
        ...(given === undefined ? {} : { image: given }),
      });
      return name;
    } catch (error) {
      throw this.#refused(error) ?? this.toError(error);
    }
  }

  machine(name: string): Machine {
    return new VercelMachine(this.renewMs, (resume) => this.#get(name, resume));
  }

  toError(error: unknown): SluiceError {
    return toUnreachable(this.title, error);
  }

  /** Undefined only where the API itself says that there is none. */
  async #get(name: string, resume = false): Promise<Sandbox | undefined> {
    const { Sandbox } = await this.#sdk();
    try {
      return await Sandbox.get({ ...this.#access(), name, resume });
    } catch (error) {
      if (statusOf(error) === 404 && isOfApi(error)) return undefined;
      throw error;
    }
  }

  /** What a later try would not change. */
  #refused(error: unknown): SluiceError | undefined {
    const status = statusOf(error);
    const { message } = error as Error;
    if (status === 401 || status === 403) {
      const detail = `Vercel refuses the token of VERCEL_TOKEN or VERCEL_OIDC_TOKEN: ${message.slice(0, 300)}`;
      return new SluiceError("permission_denied", detail, {}, { cause: error });
    }
    if (![400, 402, 404, 422].includes(status ?? 0) || !isOfApi(error)) return undefined;
    const detail = `Vercel refuses the sandbox: ${message.slice(0, 500)}`;
    return new SluiceError("invalid_request", detail, {}, { cause: error });
  }

  /** The SDK itself would ask a person to log in where there is nothing. */
  #access(): Access {
    const [token, teamId, projectId, oidc] = [
      "VERCEL_TOKEN",
      "VERCEL_TEAM_ID",
      "VERCEL_PROJECT_ID",
      "VERCEL_OIDC_TOKEN",
    ].map((name) => this.#env[name] || undefined);
    const given = this.#options.fetch;
    const carried = given ? { fetch: given } : {};
    if (token && teamId && projectId) return { token, teamId, projectId, ...carried };
    if (oidc !== undefined) return carried;
    const detail =
      "The sandbox vercel needs VERCEL_TOKEN, VERCEL_TEAM_ID and VERCEL_PROJECT_ID of the server (https://vercel.com/account/tokens), or VERCEL_OIDC_TOKEN.";
    const remedy = "export VERCEL_TOKEN=… VERCEL_TEAM_ID=… VERCEL_PROJECT_ID=…";
    throw new SluiceError("unsupported_sandbox", detail, { remedy });
  }

  async #sdk(): Promise<Sdk> {
    this.#access();
    return loadSdk<Sdk>(this.id, "@vercel/sandbox", () => import("@vercel/sandbox"));
  }

  get #timeoutMs(): number {
    return this.#options.timeoutMs ?? TIMEOUT_MS;
  }
}

export function toVercelNetwork(network: NetworkPolicy | undefined): VercelNetwork {
  const hosts = toOnlyHosts(network);
  if (hosts === undefined) return "allow-all";
  return hosts.length === 0 ? "deny-all" : { allow: [...hosts] };
}

function statusOf(error: unknown): number | undefined {
  return (error as { response?: { status?: number } }).response?.status;
}

/** A proxy's 404 has no error of the API in it. */
function isOfApi(error: unknown): boolean {
  return (error as { json?: { error?: unknown } }).json?.error !== undefined;
}

class VercelMachine implements EdgeMachine {
  readonly #renewMs: number;
  readonly #get: (resume?: boolean) => Promise<Sandbox | undefined>;
  #sandbox: Promise<Sandbox> | undefined;

  constructor(renewMs: number, get: (resume?: boolean) => Promise<Sandbox | undefined>) {
    this.#renewMs = renewMs;
    this.#get = get;
  }

  async state(): Promise<"running" | "asleep" | "gone"> {
    // Asked after a failure: another server may have started the machine again, with other addresses.
    this.#sandbox = undefined;
    const sandbox = await this.#get();
    if (!sandbox) return "gone";
    return sandbox.status === "running" || sandbox.status === "pending" ? "running" : "asleep";
  }

  async renew(): Promise<void> {
    await (await this.#open()).extendTimeout(this.#renewMs);
  }

  async wake(): Promise<void> {
    this.#sandbox = this.#open(true);
    await this.#sandbox;
  }

  async run(command: string): Promise<{ exitCode: number; output: string }> {
    const sandbox = await this.#open();
    const done = await sandbox.runCommand({ cmd: "sh", args: ["-lc", command], timeoutMs: 60_000 });
    return { exitCode: done.exitCode, output: `${await done.stdout()}${await done.stderr()}` };
  }

  async write(path: string, content: Uint8Array): Promise<void> {
    await (await this.#open()).writeFiles([{ path, content: Buffer.from(content) }]);
  }

  async address(port: number): Promise<MachineAddress> {
    const sandbox = await this.#open();
    const route = sandbox.routes.find((found) => found.port === port);
    return { url: new URL(route?.url ?? sandbox.domain(port)) };
  }

  async remove(): Promise<void> {
    await (await this.#get())?.delete({ deleteOrphanSnapshots: true });
  }

  #open(resume = false): Promise<Sandbox> {
    if (this.#sandbox && !resume) return this.#sandbox;
    const opening = this.#get(resume).then((sandbox) => {
      if (sandbox) return sandbox;
      throw new Error("it has no such machine");
    });
    this.#sandbox = opening;
    opening.catch(() => (this.#sandbox = undefined));
    return opening;
  }
}
