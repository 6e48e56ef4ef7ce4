import type Dockerode from "dockerode";
import { SluiceError } from "../../contract/index.ts";
import { toAddressText, type EngineAddress } from "./address.ts";

export interface EngineFacts {
  readonly version: string;
  /** Run by an ordinary user: root in a container is that user outside. */
  readonly rootless: boolean;
  /** Takes a filter of system calls with a container. Podman takes the name of a file of its own instead. */
  readonly filters: boolean;
  /** Writes to /proc whenever it starts something in a container, for AppArmor or SELinux. */
  readonly labels: boolean;
  readonly memoryBytes: number;
  readonly limits: { readonly memory: boolean; readonly processes: boolean; readonly cpus: boolean };
}

/** Docker or Podman, spoken to through dockerode, which is loaded when it is first needed. */
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
    // An engine that does not answer now may do so later.
    facts.catch(() => (this.#facts = undefined));
    return facts;
  }

  /** Runs calls on the engine, and says in the words of the error table what went wrong. */
  async with<T>(work: (docker: Dockerode) => Promise<T>): Promise<T> {
    this.#docker ??= loadDocker(this.address);
    try {
      return await work(await this.#docker);
    } catch (error) {
      throw this.#toError(error);
    }
  }

  /** The same for something that may not be there. */
  async find<T>(work: (docker: Dockerode) => Promise<T>): Promise<T | undefined> {
    return this.with((docker) => work(docker).catch(absent));
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

/** The facts say apart what is wrong and what helps. */
export function unreachable(
  address: EngineAddress,
  why: string,
  { code, cause }: { code?: string | undefined; cause?: unknown } = {},
): SluiceError {
  const reason = `The container engine at ${toAddressText(address)} cannot be reached (${why})`;
  const { words, remedy } = toAdvice(code);
  return new SluiceError("unsupported_sandbox", `${reason}. ${words}`, { reason, remedy }, { cause });
}

async function loadDocker(address: EngineAddress): Promise<Dockerode> {
  const { default: Docker } = await import("dockerode").catch((cause: unknown) => {
    const reason = "The docker sandbox needs the package dockerode";
    const remedy = "npm install dockerode";
    throw new SluiceError("unsupported_sandbox", `${reason}: ${remedy}`, { reason, remedy }, { cause });
  });
  return new Docker("socketPath" in address ? { ...address } : { ...address, protocol: "http" });
}

/** The part of the engine's own description that matters here. */
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

function absent(error: { statusCode?: number }): undefined {
  if (error.statusCode !== 404) throw error;
  return undefined;
}
