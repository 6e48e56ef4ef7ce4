import { createHash } from "node:crypto";
import { lstat, realpath } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { SluiceError } from "../../contract/index.ts";
import { makeFolder } from "../../disk/folder.ts";
import { resolveDirectory, resolveRealPaths } from "../host/directory.ts";
import { chooseDiskLimit } from "../host/disk/disk-limit.ts";
import { listSandboxes, SandboxFolder } from "../host/folder.ts";
import { findOwner } from "../host/owner.ts";
import { Enclosure } from "../host/processes/enclosure.ts";
import type { Detected, Sandbox, SandboxLimits, SandboxProvider, SandboxSpec } from "../port.ts";
import { findDockerPrograms, type DockerPrograms } from "../programs.ts";
import { ContainerEngine, findEngineAddress, unreachable, type AddressOptions } from "./engine.ts";
import { Image } from "./image.ts";
import { toLimitShortcomings, withDefaults } from "./limits.ts";
import { findContainerUser, toStreamShortcomings, type DockerRecord } from "./plan.ts";
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

export class DockerProvider implements SandboxProvider {
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
    await resolveDirectory(directory, await this.#hidden(await this.#makeRoot()));
  }

  /** Takes over an existing sandbox of this id, with its files. Its container is made when it is needed. */
  async create(spec: SandboxSpec): Promise<Sandbox> {
    const engine = this.#theEngine();
    const facts = await engine.facts();
    const root = await this.#makeRoot();
    const image = spec.image ?? this.#defaultImage;
    await Image.find(engine, image);
    const folder = await SandboxFolder.at(root, spec.id);
    const directory = await resolveDirectory(spec.directory, await this.#hidden(root));
    const owner = await findOwner(folder.key, directory);
    const earlier = await folder.earlierRecord();
    const diskBytes = earlier?.limits?.diskBytes ?? (await chooseDiskLimit(root, directory ?? root));
    const requested = { ...this.#options.limits, ...spec.limits };
    const hasOutputs = directory === undefined || (await isThere(join(directory, "output")));
    const makesOutputs = !hasOutputs || (earlier?.directory === directory && earlier?.madeOutputs);
    const record: DockerRecord = {
      version: 1,
      id: spec.id,
      provider: this.id,
      ...(spec.session === undefined ? {} : { session: spec.session }),
      ...(directory === undefined ? {} : { directory }),
      ...(spec.env === undefined ? {} : { env: spec.env }),
      ...(await Enclosure.locate(folder.key, undefined)),
      ...(owner === undefined ? {} : { owner }),
      ...(makesOutputs ? { madeOutputs: true } : {}),
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

  list(): Promise<{ id: string; session?: string }[]> {
    return listSandboxes(this.#options.root, this.id);
  }

  async connect(id: string): Promise<Sandbox | undefined> {
    const root = await this.#makeRoot();
    const folder = await SandboxFolder.at(root, id);
    const record = (await folder.record()) as DockerRecord | undefined;
    return record?.provider === this.id ? this.#open(folder, record, root) : undefined;
  }

  async #open(folder: SandboxFolder, record: DockerRecord, root: string): Promise<DockerSandbox> {
    const rootKey = createHash("sha256").update(root).digest("hex").slice(0, 20);
    const { fullNetwork = "default", mounts = [], programs } = this.#options;
    return new DockerSandbox({
      engine: this.#theEngine(),
      folder,
      record,
      rootKey,
      fullNetwork,
      mounts,
      hide: await this.#hidden(root),
      programs: programs ?? findDockerPrograms(),
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

  async #hidden(root: string): Promise<string[]> {
    return [root, ...(await resolveRealPaths(this.#options.hide ?? []))];
  }

  async #makeRoot(): Promise<string> {
    await makeFolder(this.#options.root);
    return realpath(this.#options.root);
  }
}

async function isThere(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => undefined)) !== undefined;
}

function toObstacle(error: Error): Pick<Detected, "reason" | "remedy"> {
  const { reason, remedy } = error instanceof SluiceError ? error.facts : {};
  return {
    reason: typeof reason === "string" ? reason : error.message,
    ...(typeof remedy === "string" ? { remedy } : {}),
  };
}
