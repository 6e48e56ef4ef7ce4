import { totalmem } from "node:os";
import { SluiceError } from "../../contract/index.ts";
import type { EgressPrograms } from "../egress/egress.ts";
import { chooseDiskLimit } from "../host/disk-limit.ts";
import {
  findOwner,
  hasOutputs,
  listSandboxes,
  makeRoot,
  resolveDirectory,
  resolveHidden,
  SandboxFolder,
  toRecord,
  type SandboxRecord,
} from "../host/folder.ts";
import { Enclosure } from "../host/processes/enclosure.ts";
import type {
  Detected,
  HostProvider,
  HostSandbox,
  ListedSandbox,
  SandboxClaim,
  SandboxLimits,
  SandboxSpec,
} from "../port.ts";
import { detectBwrap, findBwrap, tryBwrap } from "./detect.ts";
import { findScopePrefix } from "./prefixes.ts";
import { HostTree } from "../host/tree.ts";
import { BwrapSandbox } from "./sandbox.ts";

export interface BwrapProviderOptions {
  /** The parent folder of all sandboxes; made if it is missing. */
  readonly root: string;
  /** Further folders of the server that no workspace may show, such as its data. */
  readonly hide?: readonly string[];
  /** The default limits of a sandbox. */
  readonly limits?: SandboxLimits;
  /** The programs of the egress proxy; those of the build by default. */
  readonly programs?: EgressPrograms;
}

/** Enough for a compiler, too little for a fork bomb or a memory leak. The disk limit depends on the free space. */
const DEFAULT_LIMITS: SandboxLimits = {
  memoryBytes: Math.min(4 * 1024 ** 3, Math.floor(totalmem() * 0.8)),
  processes: 4_096,
};

/** Runs agents in namespaces of their own with bubblewrap: isolated, without an image or a daemon. */
export function createBwrapProvider(options: BwrapProviderOptions): HostProvider {
  return new BwrapProvider(options);
}

class BwrapProvider implements HostProvider {
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
    const { root, hide } = this.#options;
    if (directory !== undefined)
      await resolveDirectory(directory, await resolveHidden(await makeRoot(root), hide));
  }

  /** Takes over an existing sandbox of this id, with its files. */
  async create(spec: SandboxSpec, claim?: SandboxClaim): Promise<HostSandbox> {
    await this.#demand();
    const root = await makeRoot(this.#options.root);
    const folder = await SandboxFolder.at(root, spec.id, claim);
    const directory = await resolveDirectory(spec.directory, await resolveHidden(root, this.#options.hide));
    const owner = await findOwner(folder.key, directory);
    const earlier = await folder.earlierRecord();
    const diskBytes = earlier?.limits?.diskBytes ?? (await chooseDiskLimit(root, directory ?? root));
    const limits = { ...DEFAULT_LIMITS, diskBytes, ...this.#options.limits, ...spec.limits };
    const record: SandboxRecord = {
      ...toRecord(this.id, spec, directory),
      ...(await folder.since()),
      ...(directory === undefined || (await hasOutputs(directory)) ? {} : { madeOutputs: true }),
      ...(spec.network === undefined ? {} : { network: spec.network }),
      ...(owner === undefined ? {} : { owner }),
      ...(await Enclosure.locate(folder.key, limits)),
    };
    const sandbox = await this.#open(folder, record, root);
    await folder.make(record);
    return sandbox;
  }

  list(): Promise<ListedSandbox[]> {
    return listSandboxes(this.#options.root, this.id);
  }

  async connect(id: string, claim?: SandboxClaim): Promise<HostSandbox | undefined> {
    const root = await makeRoot(this.#options.root);
    const folder = await SandboxFolder.at(root, id, claim);
    const record = await folder.record();
    return record && this.#open(folder, await Enclosure.relocate(folder, record), root);
  }

  async #open(folder: SandboxFolder, record: SandboxRecord, root: string): Promise<BwrapSandbox> {
    const bwrap = (await findBwrap()) ?? "bwrap";
    const hide = await resolveHidden(root, this.#options.hide);
    const scope = record.network?.mode === "full" ? await findScopePrefix(bwrap) : undefined;
    const context = { bwrap, hide, programs: this.#options.programs, scope };
    const sandbox = new BwrapSandbox(folder, record, context);
    sandbox.tree = new HostTree(sandbox);
    return sandbox;
  }

  /** Demands less than `detect`: a client that names bwrap gets it even without a filter of system calls. */
  async #demand(): Promise<void> {
    const { available, reason, remedy } = await tryBwrap(await findBwrap(), this.#options);
    if (available) return;
    const help = remedy === undefined ? "" : ` Run: ${remedy}`;
    throw new SluiceError("unsupported_sandbox", `bwrap does not work here: ${reason}.${help}`);
  }
}
