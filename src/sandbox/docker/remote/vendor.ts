import { readFile } from "node:fs/promises";
import type { Duplex } from "node:stream";
import type Dockerode from "dockerode";
import { SluiceError } from "../../../contract/index.ts";
import {
  detectBy,
  RUNNER_PORT,
  toMachineName,
  toUnreachable,
  type Machine,
  type OwnMachine,
  type Vendor,
} from "../../cloud/vendor.ts";
import type { Detected, SandboxLimits, SandboxSpec } from "../../port.ts";
import { findRunnerProgram } from "../../remote/programs.ts";
import { loadDocker } from "../engine.ts";
import { toConnection } from "./address.ts";
import { toArchive } from "./archive.ts";
import { ExecStream } from "./exec-stream.ts";

const ROOT = "/sluice";
const PROGRAM = `${ROOT}/runner.cjs`;
const USER = 1_000;
/** An engine that takes longer for an answer is away. */
const SILENCE_MS = 60_000;
const NO_NODE = 127;
const PROCESSES = 4_096;

/** Process 1 starts the runner again after each of its ends. Agents do not need it. */
const LOOP = `command -v node >/dev/null || exit ${NO_NODE}; while :; do node ${PROGRAM} listen ${ROOT}/runner ${RUNNER_PORT}; sleep 0.2; done`;
const UP = `n=0; until node ${PROGRAM} dial ${RUNNER_PORT} </dev/null; do n=$((n+1)); [ $n -lt 40 ] || exit 1; sleep 0.2; done`;

export interface DockerVendorOptions {
  /** The address of the engine, as in DOCKER_HOST. */
  readonly host: string;
  readonly image: string;
  readonly env: NodeJS.ProcessEnv;
}

/** An engine of Docker or Podman on another machine: each sandbox is a container there. */
export class DockerVendor implements Vendor {
  readonly id = "docker";
  readonly title: string;
  readonly account: string;
  readonly renewMs = Number.POSITIVE_INFINITY;
  readonly shortcomings: readonly string[] = [];
  readonly limits: readonly (keyof SandboxLimits)[] = ["memoryBytes", "cpus", "processes"];
  readonly #options: DockerVendorOptions;
  #docker: Promise<Dockerode> | undefined;

  constructor(options: DockerVendorOptions) {
    this.#options = options;
    this.account = options.host;
    this.title = `the engine at ${options.host}`;
  }

  detect(): Promise<Detected> {
    return detectBy(() => this.check({}));
  }

  refuse({ network }: Pick<SandboxSpec, "network">): void {
    if (network?.mode !== "allow" || network.hosts.includes("*")) return;
    const detail = `${this.title} is another machine, where docker cannot keep an agent from single hosts. Ask for the full network or none; or use an engine on this machine.`;
    throw new SluiceError("capability_missing", detail, { network });
  }

  async check({ image = this.#options.image }: Pick<SandboxSpec, "image">): Promise<void> {
    try {
      if (await this.#call((docker) => ignoring([404], docker.getImage(image).inspect()))) return;
    } catch (error) {
      throw this.toError(error);
    }
    const [reason, remedy] = [`The image ${image} is not at ${this.account}`, `docker pull ${image}`];
    throw new SluiceError("unsupported_sandbox", `${reason}. Fetch it: ${remedy}`, { image, reason, remedy });
  }

  async find(sandbox: string): Promise<string | undefined> {
    const found = await this.#call((docker) => inspect(docker, toMachineName(sandbox)));
    return found?.Id;
  }

  async create(spec: SandboxSpec): Promise<string> {
    try {
      const options = toContainer(spec, this.#options.image);
      return (await this.#call((docker) => docker.createContainer(options))).id;
    } catch (error) {
      const { statusCode, message } = error as { statusCode?: number; message: string };
      if (statusCode === 404) await this.check(spec);
      if (statusCode !== 400) throw this.toError(error);
      const detail = `${this.title} refuses the sandbox: ${message.slice(0, 500)}`;
      throw new SluiceError("invalid_request", detail, {}, { cause: error });
    }
  }

  machine(id: string): Machine {
    return new ContainerMachine(id, this.title, (work) => this.#call(work));
  }

  toError(error: unknown): SluiceError {
    return toUnreachable(this.title, error);
  }

  async #call<T>(work: (docker: Dockerode) => Promise<T>): Promise<T> {
    const { host, env } = this.#options;
    this.#docker ??= loadDocker(() => toConnection(host, env));
    this.#docker.catch(() => (this.#docker = undefined));
    const docker = await this.#docker;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error("it does not answer")), SILENCE_MS);
      timer.unref();
    });
    return Promise.race([work(docker), late]).finally(() => clearTimeout(timer));
  }
}

type Call = <T>(work: (docker: Dockerode) => Promise<T>) => Promise<T>;

class ContainerMachine implements OwnMachine {
  readonly #id: string;
  readonly #title: string;
  readonly #call: Call;

  constructor(id: string, title: string, call: Call) {
    this.#id = id;
    this.#title = title;
    this.#call = call;
  }

  async state(): Promise<"running" | "asleep" | "gone"> {
    const found = await this.#call((docker) => inspect(docker, this.#id));
    if (!found || found.State.Dead) return "gone";
    return found.State.Running && !found.State.Paused ? "running" : "asleep";
  }

  async renew(): Promise<void> {}

  async wake(): Promise<void> {
    const found = await this.#call((docker) => inspect(docker, this.#id));
    if (found?.State.Paused) await this.#do((container) => container.unpause());
    else await this.prepare();
  }

  async pause(): Promise<void> {
    await this.#do((container) => container.pause());
  }

  async prepare(): Promise<void> {
    const found = await this.#call((docker) => inspect(docker, this.#id));
    if (!found?.State.Running) {
      const content = await readFile(findRunnerProgram());
      const entries = [{ name: "sluice/" }, { name: "sluice/home/" }, { name: "sluice/runner.cjs", content }];
      await this.#do((container) => container.putArchive(toArchive(entries, USER), { path: "/" }));
      await this.#do((container) => ignoring([304], container.start()));
    }
    const output = await this.#open(["/bin/sh", "-c", UP]).catch(() => undefined);
    if (output) await toEnd(output);
    const { State } = (await this.#call((docker) => inspect(docker, this.#id))) ?? {};
    if (State?.ExitCode !== NO_NODE) return;
    const detail = `The image of the sandbox on ${this.#title} has no node. It needs Node 20 or newer and the agent on its PATH.`;
    throw new SluiceError("unsupported_sandbox", detail);
  }

  dial(): Promise<Duplex> {
    return this.#open(["node", PROGRAM, "dial", String(RUNNER_PORT)]);
  }

  async remove(): Promise<void> {
    await this.#do((container) => ignoring([404, 409], container.remove({ force: true, v: true })));
  }

  async #open(argv: string[]): Promise<Duplex> {
    const options = { Cmd: argv, AttachStdin: true, AttachStdout: true, AttachStderr: true, Tty: false };
    return this.#do(async (container) => {
      const exec = await container.exec(options);
      return new ExecStream(await exec.start({ hijack: true, stdin: true }));
    });
  }

  #do<T>(work: (container: Dockerode.Container) => Promise<T>): Promise<T> {
    return this.#call((docker) => work(docker.getContainer(this.#id)));
  }
}

/** No capability, no other user than its own, and no more rights than at its start. */
function toContainer(
  { id, session, image, network, limits = {} }: SandboxSpec,
  defaultImage: string,
): Dockerode.ContainerCreateOptions {
  const { memoryBytes, cpus, processes = PROCESSES } = limits;
  const isOpen = network === undefined || network.mode === "full" || network.mode === "allow";
  return {
    name: toMachineName(id),
    Image: image ?? defaultImage,
    Entrypoint: ["/bin/sh", "-c", LOOP],
    Cmd: [],
    User: `${USER}:${USER}`,
    WorkingDir: "/",
    Env: [`HOME=${ROOT}/home`],
    Labels: { "sluice.elsewhere": id, ...(session === undefined ? {} : { "sluice.session": session }) },
    HostConfig: {
      CapDrop: ["ALL"],
      SecurityOpt: ["no-new-privileges"],
      RestartPolicy: { Name: "unless-stopped" },
      PidsLimit: processes,
      ...(isOpen ? {} : { NetworkMode: "none" }),
      ...(memoryBytes === undefined ? {} : { Memory: memoryBytes, MemorySwap: memoryBytes }),
      ...(cpus === undefined ? {} : { NanoCpus: Math.round(cpus * 1e9) }),
    },
  };
}

function inspect(docker: Dockerode, name: string): Promise<Dockerode.ContainerInspectInfo | undefined> {
  return ignoring([404], docker.getContainer(name).inspect());
}

async function ignoring<T>(statuses: readonly number[], call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (statuses.includes((error as { statusCode?: number }).statusCode ?? 0)) return undefined;
    throw error;
  }
}

function toEnd(stream: Duplex): Promise<void> {
  return new Promise((resolve) =>
    stream
      .on("close", resolve)
      .on("error", () => {})
      .on("end", () => stream.destroy())
      .resume(),
  );
}
