import { totalmem } from "node:os";
import { lstat, mkdir, realpath } from "../../disk/onTheSpot.ts";
import { SluiceError } from "../../contract/index.ts";
import type { BridgePrograms } from "../bridge/programs.ts";
import { toDirectory, toRealPaths } from "../host/directory.ts";
import { toDefaultDiskBytes } from "../host/diskGuard.ts";
import { Enclosure } from "../host/enclosure.ts";
import { listSandboxes, SandboxFolder, type SandboxRecord } from "../host/folder.ts";
import type { Detected, Sandbox, SandboxLimits, SandboxProvider, SandboxSpec } from "../port.ts";
import { detectBwrap, findBwrap, tryBwrap } from "./detect.ts";
import { BwrapSandbox } from "./sandbox.ts";
import { findScopePrefix } from "./scope.ts";
import { toOwner } from "./user.ts";

export interface BwrapProviderOptions {
  /** Where the folders of the sandboxes are; made if it is not there. */
  readonly root: string;
  /** Further folders of the server's own that no workspace may show, such as its data. */
  readonly hide?: readonly string[];
  /** For a sandbox that asks for none of its own. */
  readonly limits?: SandboxLimits;
  /** The bridge's two ends, unless they are where the build puts them. */
  readonly programs?: BridgePrograms;
}

/** Stops a fork bomb and a memory hog, and leaves a compiler alone. The limit of the disk goes by what is free. */
export const DEFAULT_LIMITS: SandboxLimits = {
  memoryBytes: Math.min(4 * 1024 ** 3, Math.floor(totalmem() * 0.8)),
  processes: 4_096,
};

/** Runs agents in namespaces of their own with bubblewrap: isolated, without an image or a daemon. */
export function createBwrapProvider(options: BwrapProviderOptions): SandboxProvider {
  return new BwrapProvider(options);
}

class BwrapProvider implements SandboxProvider {
  readonly id = "bwrap";
  readonly #options: BwrapProviderOptions;

  constructor(options: BwrapProviderOptions) {
    this.#options = options;
  }

  async detect(): Promise<Detected> {
    return detectBwrap(await findBwrap(), this.#options);
  }

  async check({ directory }: { directory?: string | undefined }): Promise<void> {
    await this.#demand();
    if (directory !== undefined) await toDirectory(directory, await this.#hidden(await this.#makeRoot()));
  }

  /** One that is there already under this id is taken over with its files. */
  async create(spec: SandboxSpec): Promise<Sandbox> {
    await this.#demand();
    const root = await this.#makeRoot();
    const folder = await SandboxFolder.at(root, spec.id);
    const directory = await toDirectory(spec.directory, await this.#hidden(root));
    const owner = await toOwner(folder.key, directory);
    const before = (await folder.earlierRecord())?.limits?.diskBytes;
    const diskBytes = before ?? (await toDefaultDiskBytes(root, directory ?? root));
    const limits = { ...DEFAULT_LIMITS, diskBytes, ...this.#options.limits, ...spec.limits };
    const record: SandboxRecord = {
      version: 1,
      id: spec.id,
      provider: this.id,
      ...(spec.session === undefined ? {} : { session: spec.session }),
      ...(await folder.since()),
      ...(directory === undefined ? {} : { directory, ...(await makesOutputs(directory)) }),
      ...(spec.env === undefined ? {} : { env: spec.env }),
      ...(spec.network === undefined ? {} : { network: spec.network }),
      ...(owner === undefined ? {} : { owner }),
      ...(await Enclosure.locate(folder.key, limits)),
    };
    const sandbox = await this.#open(folder, record, root);
    await folder.make(record);
    return sandbox;
  }

  list(): Promise<{ id: string; session?: string }[]> {
    return listSandboxes(this.#options.root, this.id);
  }

  async connect(id: string): Promise<Sandbox | undefined> {
    const root = await this.#makeRoot();
    const folder = await SandboxFolder.at(root, id);
    const record = await folder.record();
    return record && this.#open(folder, await Enclosure.relocate(folder, record), root);
  }

  async #open(folder: SandboxFolder, record: SandboxRecord, root: string): Promise<BwrapSandbox> {
    const bwrap = (await findBwrap()) ?? "bwrap";
    const hide = await this.#hidden(root);
    const scope = record.network?.mode === "full" ? await findScopePrefix(bwrap) : undefined;
    return new BwrapSandbox(folder, record, { bwrap, hide, programs: this.#options.programs, scope });
  }

  /** Whoever names bwrap gets it also where it is not chosen unasked. */
  async #demand(): Promise<void> {
    const { available, reason, remedy } = await tryBwrap(await findBwrap(), this.#options);
    if (available) return;
    const help = remedy === undefined ? "" : ` Run: ${remedy}`;
    throw new SluiceError("unsupported_sandbox", `bwrap does not work here: ${reason}.${help}`);
  }

  async #hidden(root: string): Promise<string[]> {
    return [root, ...(await toRealPaths(this.#options.hide ?? []))];
  }

  async #makeRoot(): Promise<string> {
    await mkdir(this.#options.root, { recursive: true, mode: 0o700 });
    return realpath(this.#options.root);
  }
}

async function makesOutputs(directory: string): Promise<{ madeOutputs?: true }> {
  const found = await lstat(`${directory}/output`).catch(() => undefined);
  return found === undefined ? { madeOutputs: true } : {};
}
