import type Dockerode from "dockerode";
import { SluiceError } from "../../contract/index.ts";
import { toAddressText, type EngineAddress } from "./address.ts";

export interface EngineFacts {
  readonly version: string;
  /** Run by an ordinary user: root in a container is that user outside. */
  readonly rootless: boolean;
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
    const reason = `The container engine at ${toAddressText(this.address)} cannot be reached (${message}). ${toAdvice(code)}`;
    return new SluiceError("unsupported_sandbox", reason, {}, { cause: error });
  }
}

async function loadDocker(address: EngineAddress): Promise<Dockerode> {
  const { default: Docker } = await import("dockerode").catch((cause: unknown) => {
    const detail = "The docker sandbox needs the package dockerode: npm install dockerode";
    throw new SluiceError("unsupported_sandbox", detail, {}, { cause });
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
  return {
    version: `${name === "Engine" ? "Docker" : name.replace(/ Engine$/, "")} ${version.Version}`,
    rootless: (info.SecurityOptions ?? []).some((option) => option.includes("rootless")),
    memoryBytes: info.MemTotal ?? 0,
    limits: {
      memory: info.MemoryLimit ?? false,
      processes: info.PidsLimit ?? false,
      cpus: info.CpuCfsQuota ?? false,
    },
  };
}

function toAdvice(code: string | undefined): string {
  if (code === "EACCES" || code === "EPERM")
    return "Join its group and log in again: sudo usermod -aG docker $USER";
  if (code === "ECONNREFUSED")
    return "Start it: sudo systemctl start docker, or systemctl --user start podman.socket";
  return "Install one: sudo apt-get install docker.io, or set DOCKER_HOST";
}

function absent(error: { statusCode?: number }): undefined {
  if (error.statusCode !== 404) throw error;
  return undefined;
}
