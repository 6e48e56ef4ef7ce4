import { existsSync } from "node:fs";
import { join } from "node:path";
import type Dockerode from "dockerode";
import type { HostConfig } from "dockerode";
import { SluiceError } from "../../contract/index.ts";
import { homeFolder } from "../data-folder.ts";
import { parseGroups } from "../host/processes/cgroup.ts";
import type { ControllerPaths } from "../host/processes/controllers.ts";
import { readProcFile } from "../host/processes/procfs.ts";
import type { SandboxLimits } from "../port.ts";

export interface EngineFacts {
  readonly version: string;
  /** Whether an ordinary user runs it: root in a container is that user outside. */
  readonly rootless: boolean;
  /** Whether a container's options may hold a filter of system calls. Podman takes the name of a file instead. */
  readonly filters: boolean;
  /** Whether it sets labels of AppArmor or SELinux. For that it has to write to a container's /proc. */
  readonly labels: boolean;
  readonly memoryBytes: number;
  readonly limits: { readonly memory: boolean; readonly processes: boolean; readonly cpus: boolean };
}

/** Docker or Podman, called through the package dockerode, which is loaded on first use. */
export class ContainerEngine {
  readonly address: EngineAddress;
  #docker: Promise<Dockerode> | undefined;
  #facts: Promise<EngineFacts> | undefined;

  constructor(address: EngineAddress) {
    this.address = address;
  }

  facts(): Promise<EngineFacts> {
    const facts = this.#facts ?? this.with(readFacts);
    this.#facts = facts;
    // An engine that does not answer now may answer the next caller.
    facts.catch(() => (this.#facts = undefined));
    return facts;
  }

  /** Runs calls on the engine, and maps its errors to the error table. */
  async with<T>(work: (docker: Dockerode) => Promise<T>): Promise<T> {
    const { address } = this;
    this.#docker ??= loadDocker(() =>
      "socketPath" in address ? { ...address } : { ...address, protocol: "http" },
    );
    try {
      return await work(await this.#docker);
    } catch (error) {
      throw this.#toError(error);
    }
  }

  /** Like `with`, but a missing object is undefined instead of an error. */
  async find<T>(work: (docker: Dockerode) => Promise<T>): Promise<T | undefined> {
    return this.with((docker) => work(docker).catch(ignoreMissing));
  }

  #toError(error: unknown): unknown {
    if (error instanceof SluiceError) return error;
    const { code, statusCode, message } = error as { code?: string; statusCode?: number; message: string };
    if (statusCode !== undefined) {
      return new SluiceError("internal", `The container engine refused: ${message}`, {}, { cause: error });
    }
    return unreachable(this.address, message, { code, cause: error });
  }
}

/** The error for an engine that does not answer. Its facts name the reason and the remedy separately. */
export function unreachable(
  address: EngineAddress,
  why: string,
  { code, cause }: { code?: string | undefined; cause?: unknown } = {},
): SluiceError {
  const reason = `The container engine at ${toAddressText(address)} cannot be reached (${why})`;
  const { words, remedy } = toAdvice(code);
  return new SluiceError("unsupported_sandbox", `${reason}. ${words}`, { reason, remedy }, { cause });
}

export async function loadDocker(toOptions: () => Dockerode.DockerOptions): Promise<Dockerode> {
  const { default: Docker } = await import("dockerode").catch((cause: unknown) => {
    const reason = "The docker sandbox needs the package dockerode";
    const remedy = "npm install dockerode";
    throw new SluiceError("unsupported_sandbox", `${reason}: ${remedy}`, { reason, remedy }, { cause });
  });
  return new Docker(toOptions());
}

/** The used part of the engine's description of itself. */
interface EngineInfo {
  readonly ServerVersion?: string;
  readonly SecurityOptions?: readonly string[] | null;
  readonly MemTotal?: number;
  readonly MemoryLimit?: boolean;
  readonly PidsLimit?: boolean;
  readonly CpuCfsQuota?: boolean;
}

async function readFacts(docker: Dockerode): Promise<EngineFacts> {
  const [info, version] = await Promise.all([docker.info() as Promise<EngineInfo>, docker.version()]);
  const name = version.Components?.[0]?.Name ?? "Docker";
  const has = (option: string): boolean =>
    (info.SecurityOptions ?? []).some((found) => found.includes(option));
  const isPodman = name.startsWith("Podman");
  return {
    version: `${name === "Engine" ? "Docker" : name.replace(/ Engine$/, "")} ${version.Version}`,
    rootless: has("rootless"),
    filters: has("seccomp") && !isPodman,
    labels: isPodman || has("apparmor") || has("selinux"),
    memoryBytes: info.MemTotal ?? 0,
    limits: {
      memory: info.MemoryLimit ?? false,
      processes: info.PidsLimit ?? false,
      cpus: info.CpuCfsQuota ?? false,
    },
  };
}

function toAdvice(code: string | undefined): { words: string; remedy: string } {
  if (code === "EACCES" || code === "EPERM") {
    const remedy = "sudo usermod -aG docker $USER";
    return { words: `Join its group and log in again: ${remedy}`, remedy };
  }
  if (process.platform === "darwin") {
    const remedy = "open -a Docker";
    return { words: `Start Docker Desktop: ${remedy}, or set DOCKER_HOST`, remedy };
  }
  if (code === "ECONNREFUSED" || code === "ETIMEDOUT") {
    const remedy = "sudo systemctl restart docker";
    return { words: `Start it: ${remedy}, or systemctl --user start podman.socket`, remedy };
  }
  const remedy = "sudo apt-get install docker.io";
  return { words: `Install one: ${remedy}, or set DOCKER_HOST`, remedy };
}

function ignoreMissing(error: { statusCode?: number }): undefined {
  if (error.statusCode !== 404) throw error;
  return undefined;
}

/** Where an engine listens. Only on this machine: the folders of a sandbox are mounted from here. */
export type EngineAddress =
  | { readonly socketPath: string }
  | { readonly host: string; readonly port: number };

export interface AddressOptions {
  readonly socketPath?: string;
  /** As in DOCKER_HOST: `unix:///path` or `tcp://127.0.0.1:port`. */
  readonly host?: string;
}

/** From the options, else from the environment, else the first socket that exists. */
export function findEngineAddress(
  options: AddressOptions,
  env: NodeJS.ProcessEnv = process.env,
): EngineAddress {
  if (options.socketPath !== undefined) return { socketPath: options.socketPath };
  const host = options.host ?? env["DOCKER_HOST"] ?? env["CONTAINER_HOST"];
  if (host) return parseHost(host);
  const known = knownSockets(env);
  return { socketPath: known.find((path) => existsSync(path)) ?? "/var/run/docker.sock" };
}

function toAddressText(address: EngineAddress): string {
  return "socketPath" in address ? address.socketPath : `${address.host}:${address.port}`;
}

function parseHost(text: string): EngineAddress {
  if (text.startsWith("unix://")) return { socketPath: text.slice("unix://".length) };
  if (text.startsWith("/")) return { socketPath: text };
  const local = /^(?:tcp|http):\/\/(localhost|127\.\d+\.\d+\.\d+|\[::1\])(?::(\d+))?\/?$/.exec(text);
  if (local) return { host: (local[1] ?? "").replace(/^\[|\]$/g, ""), port: Number(local[2] ?? 2375) };
  const detail = `The engine at ${text} is out of reach here: the sandbox's folders are mounted from this machine. Use unix:///path/to/the.sock or tcp://127.0.0.1:port.`;
  throw new SluiceError("invalid_request", detail, { host: text });
}

function knownSockets(env: NodeJS.ProcessEnv): string[] {
  const runtime = env["XDG_RUNTIME_DIR"];
  return [
    "/var/run/docker.sock",
    ...(runtime ? [join(runtime, "docker.sock"), join(runtime, "podman/podman.sock")] : []),
    join(homeFolder(env), ".docker/run/docker.sock"),
    "/run/podman/podman.sock",
  ];
}

/** Adds default limits: without any, one fork bomb or leak would take down the machine. */
export function withDefaults(limits: SandboxLimits | undefined, facts: EngineFacts): SandboxLimits {
  const memoryBytes = Math.floor(facts.memoryBytes * 0.75);
  return { processes: 4_096, ...(memoryBytes > 0 ? { memoryBytes } : {}), ...limits };
}

/** The control groups that count a container's use, if this host shows them. */
export async function findControllers(pid: number): Promise<ControllerPaths> {
  const text = (await readProcFile(`/proc/${pid}/cgroup`).catch(() => undefined)) ?? "";
  const pathsOf = (name: string): string[] =>
    parseGroups(text)
      .filter(({ controllers }) => controllers.includes(name) || controllers.length === 0)
      // Version 1 mounts each controller under its name. Version 2 has one group for all, which lists no controllers.
      .map(({ controllers, path }) => join("/sys/fs/cgroup", controllers.length === 0 ? "" : name, path));
  const find = (name: string, file: string): string | undefined =>
    pathsOf(name).find((path) => existsSync(join(path, file)));
  const memory = find("memory", "memory.events") ?? find("memory", "memory.oom_control");
  const pids = find("pids", "pids.events");
  return { ...(memory === undefined ? {} : { memory }), ...(pids === undefined ? {} : { pids }) };
}

export function toLimitConfig(limits: SandboxLimits, facts: EngineFacts): Partial<HostConfig> {
  const { memoryBytes, processes, cpus } = limits;
  return {
    // MemorySwap is the sum of memory and swap, so this allows no swap.
    ...(memoryBytes !== undefined && facts.limits.memory
      ? { Memory: memoryBytes, MemorySwap: memoryBytes }
      : {}),
    ...(processes !== undefined && facts.limits.processes ? { PidsLimit: processes } : {}),
    ...(cpus !== undefined && facts.limits.cpus ? { NanoCpus: Math.round(cpus * 1e9) } : {}),
  };
}

/** Requested limits that this engine cannot enforce. */
export function toLimitShortcomings(limits: SandboxLimits | undefined, facts: EngineFacts): string[] {
  const lacks: [unknown, boolean, string][] = [
    [limits?.memoryBytes, facts.limits.memory, "memory"],
    [limits?.processes, facts.limits.processes, "processes"],
    [limits?.cpus, facts.limits.cpus, "CPU time"],
  ];
  return lacks
    .filter(([asked, enforced]) => asked !== undefined && !enforced)
    .map(([, , what]) => `The limit on ${what} is not enforced by this container engine.`);
}
