import { realpath } from "node:fs/promises";
import { SluiceError } from "../../contract/index.ts";
import { makeFolder } from "../../disk/folder.ts";
import { resolveDirectory } from "../host/directory.ts";
import { listSandboxes, SandboxFolder, type SandboxRecord } from "../host/folder.ts";
import { Enclosure } from "../host/processes/enclosure.ts";
import type { Detected, NetworkPolicy, Sandbox, SandboxProvider, SandboxSpec } from "../port.ts";
import { LocalSandbox } from "./sandbox.ts";

export interface LocalProviderOptions {
  /** The parent folder of all sandboxes; made if it is missing. */
  readonly root: string;
}

/** Runs agents as plain processes of this user, without isolation. */
export function createLocalProvider(options: LocalProviderOptions): SandboxProvider {
  return new LocalProvider(options.root);
}

class LocalProvider implements SandboxProvider {
  readonly id = "local";
  readonly isolated = false;
  readonly #root: string;

  constructor(root: string) {
    this.#root = root;
  }

  async detect(): Promise<Detected> {
    if (process.platform !== "win32") return { available: true };
    return { available: false, reason: "Windows has no process groups; run sluice in WSL" };
  }

  async check({ directory, network }: Parameters<NonNullable<SandboxProvider["check"]>>[0]): Promise<void> {
    refuseNetwork(network);
    await resolveDirectory(directory, [await this.#makeRoot()]);
  }

  /** Takes over an existing sandbox of this id, with its files. */
  async create(spec: SandboxSpec): Promise<Sandbox> {
    refuseNetwork(spec.network);
    const root = await this.#makeRoot();
    const folder = await SandboxFolder.at(root, spec.id);
    const directory = await resolveDirectory(spec.directory, [root]);
    const record: SandboxRecord = {
      version: 1,
      id: spec.id,
      provider: this.id,
      ...(spec.session === undefined ? {} : { session: spec.session }),
      ...(await folder.since()),
      ...(directory === undefined ? {} : { directory }),
      ...(spec.env === undefined ? {} : { env: spec.env }),
      ...(await Enclosure.locate(folder.key, spec.limits)),
    };
    await folder.make(record);
    return new LocalSandbox(folder, record, root);
  }

  list(): Promise<{ id: string; session?: string }[]> {
    return listSandboxes(this.#root, this.id);
  }

  async connect(id: string): Promise<Sandbox | undefined> {
    const root = await this.#makeRoot();
    const folder = await SandboxFolder.at(root, id);
    const record = await folder.record();
    return record && new LocalSandbox(folder, await Enclosure.relocate(folder, record), root);
  }

  async #makeRoot(): Promise<string> {
    await makeFolder(this.#root);
    return realpath(this.#root);
  }
}

/** Refuses every policy but the full network: a local process cannot be kept from a host. */
function refuseNetwork(network: NetworkPolicy | undefined): void {
  if (network === undefined || network.mode === "full") return;
  if (network.mode === "allow" && network.hosts.includes("*")) return;
  throw new SluiceError(
    "capability_missing",
    "A local sandbox cannot keep an agent from any host. Use bwrap or docker, or ask for the full network.",
    { network },
  );
}
