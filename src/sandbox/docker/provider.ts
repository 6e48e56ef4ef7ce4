import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { SluiceError } from "../../contract/index.ts";
import { findEgressPrograms, findProgramFolder } from "../egress/egress.ts";
import { chooseDiskLimit } from "../host/disk-limit.ts";
import {
  findOwner,
  hasOutputs,
  listSandboxes,
  makeRoot,
  resolveDirectory,
  resolveHidden,
  SandboxFolder,
  toKey,
  toRecord,
} from "../host/folder.ts";
import { Enclosure } from "../host/processes/enclosure.ts";
import type {
  Detected,
  HostProvider,
  HostSandbox,
  ListedSandbox,
  SandboxClaim,
  SandboxLimits,
  SandboxProvider,
  SandboxSpec,
} from "../port.ts";
import { RemoteRecords } from "../remote/provider.ts";
import {
  ContainerEngine,
  findEngineAddress,
  toLimitShortcomings,
  unreachable,
  withDefaults,
  type AddressOptions,
} from "./engine.ts";
import { Image } from "./image.ts";
import { findContainerUser, toStreamShortcomings, type DockerPrograms, type DockerRecord } from "./plan.ts";
import { DockerSandbox } from "./sandbox.ts";

export interface DockerProviderOptions extends AddressOptions {
  /** The parent folder of all sandboxes; made if it is missing. */
  readonly root: string;
  /** The default image. It has to be on this machine already. */
  readonly image?: string;
  /** The default limits of a sandbox. */
  readonly limits?: SandboxLimits;
  /** Host files and folders that every container sees at the same paths, read-only. */
  readonly mounts?: readonly string[];
  /** The network of a sandbox with full access; the engine's default unless given. */
  readonly fullNetwork?: string;
  /** Further folders of the server that no workspace may show, such as its data. */
  readonly hide?: readonly string[];
  /** The folder of the records of sandboxes on other machines, some of which may be on an engine there. */
  readonly records?: string;
  /** The programs around and in a container; those of the build by default. */
  readonly programs?: DockerPrograms;
}

export const DEFAULT_IMAGE = "node:22-bookworm";

/** The time limit for an engine's answer. */
const PATIENCE_MS = 10_000;

/** Runs each sandbox in a container of Docker, or of Podman, which has Docker's API. */
export function createDockerProvider(options: DockerProviderOptions): DockerProvider {
  return new DockerProvider(options);
}

export class DockerProvider implements HostProvider {
  readonly id = "docker";
  readonly #options: DockerProviderOptions;
  #engine: ContainerEngine | undefined;

  constructor(options: DockerProviderOptions) {
    this.#options = options;
  }

  /** Whether the engine answers and the default image is on this machine. */
  async detect(): Promise<Detected> {
    try {
      await this.#demand(undefined);
      return { available: true };
    } catch (error) {
      return { available: false, ...toObstacle(error as Error) };
    }
  }

  /** The engine's name and version. */
  async version(): Promise<string> {
    return (await this.#theEngine().facts()).version;
  }

  async check({ directory, image }: Parameters<NonNullable<SandboxProvider["check"]>>[0]): Promise<void> {
    await this.#demand(image);
    const { root, hide } = this.#options;
    await resolveDirectory(directory, await resolveHidden(await makeRoot(root), hide));
  }

  /** Takes over an existing sandbox of this id, with its files. Its container is made when it is needed. */
  async create(spec: SandboxSpec, claim?: SandboxClaim): Promise<HostSandbox> {
    const engine = this.#theEngine();
    const facts = await engine.facts();
    const root = await makeRoot(this.#options.root);
    const image = spec.image ?? this.#defaultImage;
    await Image.find(engine, image);
    const folder = await SandboxFolder.at(root, spec.id, claim);
    const directory = await resolveDirectory(spec.directory, await resolveHidden(root, this.#options.hide));
    const owner = await findOwner(folder.key, directory);
    const earlier = await folder.earlierRecord();
    const diskBytes = earlier?.limits?.diskBytes ?? (await chooseDiskLimit(root, directory ?? root));
    const requested = { ...this.#options.limits, ...spec.limits };
    const makesOutputs = directory !== undefined && !(await hasOutputs(directory));
    const madeOutputs = makesOutputs || (earlier?.directory === directory && earlier?.madeOutputs);
    const record: DockerRecord = {
      ...toRecord(this.id, spec, directory),
      ...(await Enclosure.locate(folder.key, undefined)),
      ...(owner === undefined ? {} : { owner }),
      ...(madeOutputs ? { madeOutputs } : {}),
      image,
      network: spec.network ?? { mode: "allow", hosts: [] },
      limits: { diskBytes, ...withDefaults(requested, facts) },
      shortcomings: [
        ...toLimitShortcomings(requested, facts),
        ...toStreamShortcomings(findContainerUser(facts, owner)),
      ],
    };
    const sandbox = await this.#open(folder, record, root);
    // An existing container cannot be changed, and would keep its old network and limits.
    if (earlier !== undefined && JSON.stringify(earlier) !== JSON.stringify(record)) await sandbox.discard();
    await folder.make(record);
    return sandbox;
  }

  list(): Promise<ListedSandbox[]> {
    return listSandboxes(this.#options.root, this.id);
  }

  async connect(id: string, claim?: SandboxClaim): Promise<HostSandbox | undefined> {
    const root = await makeRoot(this.#options.root);
    const folder = await SandboxFolder.at(root, id, claim);
    const record = (await folder.record()) as DockerRecord | undefined;
    if (record?.provider === this.id) return this.#open(folder, record, root);
    const { records } = this.#options;
    const elsewhere = records === undefined ? [] : await new RemoteRecords(records).list();
    if (!elsewhere.some((found) => found.id === id && found.provider === this.id)) return undefined;
    const detail = `The sandbox ${id} is on the engine of another machine. Set DOCKER_HOST to it again.`;
    throw new SluiceError("sandbox_unreachable", detail);
  }

  async #open(folder: SandboxFolder, record: DockerRecord, root: string): Promise<DockerSandbox> {
    const { fullNetwork = "default", mounts = [], programs } = this.#options;
    return new DockerSandbox({
      engine: this.#theEngine(),
      folder,
      record,
      rootKey: toKey(root),
      fullNetwork,
      mounts,
      hide: await resolveHidden(root, this.#options.hide),
      programs: programs ?? findPrograms(),
    });
  }

  /** Fails unless the engine has the image. A stuck engine must not block the caller. */
  async #demand(image: string | undefined): Promise<void> {
    const engine = this.#theEngine();
    const found = engine.facts().then(() => Image.find(engine, image ?? this.#defaultImage));
    const late = sleep(PATIENCE_MS, undefined, { ref: false }).then(() => {
      throw unreachable(engine.address, "it does not answer", { code: "ETIMEDOUT" });
    });
    await Promise.race([found, late]);
  }

  get #defaultImage(): string {
    return this.#options.image ?? DEFAULT_IMAGE;
  }

  #theEngine(): ContainerEngine {
    this.#engine ??= new ContainerEngine(findEngineAddress(this.#options));
    return this.#engine;
  }
}

function toObstacle(error: Error): Pick<Detected, "reason" | "remedy"> {
  const { reason, remedy } = error instanceof SluiceError ? error.facts : {};
  return {
    reason: typeof reason === "string" ? reason : error.message,
    ...(typeof remedy === "string" ? { remedy } : {}),
  };
}

function findPrograms(): DockerPrograms {
  const folder = findProgramFolder();
  return {
    ...findEgressPrograms(),
    exec: join(folder, "docker-exec.js"),
    launch: join(folder, "docker-launch.js"),
  };
}
