import { createHash } from "node:crypto";
import { lstat, mkdir, realpath } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { SluiceError } from "../../contract/index.ts";
import { toOwner } from "../bwrap/user.ts";
import { toDefaultDiskBytes } from "../host/diskGuard.ts";
import { toDirectory, toRealPaths } from "../host/directory.ts";
import { Enclosure } from "../host/enclosure.ts";
import { listSandboxes, SandboxFolder } from "../host/folder.ts";
import type { Detected, Sandbox, SandboxLimits, SandboxProvider, SandboxSpec } from "../port.ts";
import { toEngineAddress, type AddressOptions } from "./address.ts";
import { ContainerEngine, unreachable } from "./engine.ts";
import { Image } from "./image.ts";
import { toLimitShortcomings, withDefaults } from "./limits.ts";
import { toContainerUser, toStreamShortcomings } from "./plan.ts";
import { findDockerPrograms, type DockerPrograms } from "./programs.ts";
import type { DockerRecord } from "./record.ts";
import { DockerSandbox } from "./sandbox.ts";

export interface DockerProviderOptions extends AddressOptions {
  /** Where the folders of the sandboxes are; made if it is not there. */
  readonly root: string;
  /** For sandboxes that name none; it has to be on this machine already. */
  readonly image?: string;
  /** For sandboxes that say nothing else. */
  readonly limits?: SandboxLimits;
  /** Host files and folders that every container sees at the same paths, read-only. */
  readonly mounts?: readonly string[];
  /** What a sandbox with a full network is connected to; the engine's default unless said otherwise. */
  readonly fullNetwork?: string;
  /** Further folders of the server's own that no workspace may show, such as its data. */
  readonly hide?: readonly string[];
  /** The programs on both sides of a container, unless they are where the build puts them. */
  readonly programs?: DockerPrograms;
}

export const DEFAULT_IMAGE = "node:22-bookworm";

/** How long an engine may take to say who it is. */
const PATIENCE_MS = 10_000;

/** Runs each sandbox in a container of Docker or Podman, both spoken to over the socket of the first. */
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

  /** The engine answers, and the image of sandboxes that name none is there. */
  async detect(): Promise<Detected> {
    try {
      await this.#demand(undefined);
      return { available: true };
    } catch (error) {
      return { available: false, ...toObstacle(error as Error) };
    }
  }

  /** The engine that answers, and its version. */
  async version(): Promise<string> {
    return (await this.#theEngine().facts()).version;
  }

  async check({ directory, image }: Parameters<NonNullable<SandboxProvider["check"]>>[0]): Promise<void> {
    await this.#demand(image);
    await toDirectory(directory, await this.#hidden(await this.#makeRoot()));
  }

  /** One that is there already under this id is taken over with its files. Its container is made when it is needed. */
  async create(spec: SandboxSpec): Promise<Sandbox> {
    const engine = this.#theEngine();
    const facts = await engine.facts();
    const root = await this.#makeRoot();
    const name = spec.image ?? this.#image;
    await Image.find(engine, name);
    const folder = await SandboxFolder.at(root, spec.id);
    const directory = await toDirectory(spec.directory, await this.#hidden(root));
    const owner = await toOwner(folder.key, directory);
    const before = await folder.earlierRecord();
    const diskBytes = before?.limits?.diskBytes ?? (await toDefaultDiskBytes(root, directory ?? root));
    const asked = { ...this.#options.limits, ...spec.limits };
    const hasOutputs = directory === undefined || (await isThere(join(directory, "output")));
    const makesOutputs = !hasOutputs || (before?.directory === directory && before?.madeOutputs);
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
      image: name,
      network: spec.network ?? { mode: "allow", hosts: [] },
      limits: { diskBytes, ...withDefaults(asked, facts) },
      shortcomings: [
        ...toLimitShortcomings(asked, facts),
        ...toStreamShortcomings(toContainerUser(facts, owner)),
      ],
    };
    const sandbox = await this.#open(folder, record, root);
    // What a container is cannot be changed: the old one would keep its network and its limits.
    if (before !== undefined && JSON.stringify(before) !== JSON.stringify(record)) await sandbox.discard();
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

  /** An engine that is stuck must not hold up whoever asks. */
  async #demand(image: string | undefined): Promise<void> {
    const engine = this.#theEngine();
    const found = engine.facts().then(() => Image.find(engine, image ?? this.#image));
    const late = sleep(PATIENCE_MS, undefined, { ref: false }).then(() => {
      throw unreachable(engine.address, "it does not answer", { code: "ETIMEDOUT" });
    });
    await Promise.race([found, late]);
  }

  get #image(): string {
    return this.#options.image ?? DEFAULT_IMAGE;
  }

  #theEngine(): ContainerEngine {
    this.#engine ??= new ContainerEngine(toEngineAddress(this.#options));
    return this.#engine;
  }

  async #hidden(root: string): Promise<string[]> {
    return [root, ...(await toRealPaths(this.#options.hide ?? []))];
  }

  async #makeRoot(): Promise<string> {
    await mkdir(this.#options.root, { recursive: true, mode: 0o700 });
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
