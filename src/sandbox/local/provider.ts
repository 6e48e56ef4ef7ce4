import { mkdir, realpath, stat } from "node:fs/promises";
import { isAbsolute } from "node:path";
import { SluiceError } from "../../contract/index.ts";
import type { Sandbox, SandboxProvider, SandboxSpec } from "../port.ts";
import { Cgroup } from "../host/cgroup.ts";
import { SandboxFolder, type SandboxRecord } from "../host/folder.ts";
import { isInside } from "../host/mapping.ts";
import { LocalSandbox } from "./sandbox.ts";

export interface LocalProviderOptions {
  /** Where the folders of the sandboxes are; made if it is not there. */
  readonly root: string;
}

/** Runs agents as plain processes of this user: no isolation, but an end for certain. */
export function createLocalProvider(options: LocalProviderOptions): SandboxProvider {
  return new LocalProvider(options.root);
}

class LocalProvider implements SandboxProvider {
  readonly id = "local";
  readonly #root: string;

  constructor(root: string) {
    this.#root = root;
  }

  async detect(): Promise<{ available: boolean; reason?: string }> {
    if (process.platform !== "win32") return { available: true };
    return { available: false, reason: "Windows has no process groups; run sluice in WSL" };
  }

  /** One that is there already under this id is taken over with its files. */
  async create(spec: SandboxSpec): Promise<Sandbox> {
    const root = await this.#makeRoot();
    const folder = await SandboxFolder.at(root, spec.id);
    const directory = spec.directory === undefined ? undefined : await toDirectory(spec.directory, root);
    const cgroup = await Cgroup.locate(`sluice-${folder.key}`);
    const record: SandboxRecord = {
      version: 1,
      id: spec.id,
      ...(directory === undefined ? {} : { directory }),
      ...(spec.env === undefined ? {} : { env: spec.env }),
      ...(cgroup === undefined ? {} : { cgroup: cgroup.path }),
    };
    await folder.make(record);
    return new LocalSandbox(folder, record, root);
  }

  async connect(id: string): Promise<Sandbox | undefined> {
    const root = await this.#makeRoot();
    const folder = await SandboxFolder.at(root, id);
    const record = await folder.record();
    return record && new LocalSandbox(folder, record, root);
  }

  async #makeRoot(): Promise<string> {
    await mkdir(this.#root, { recursive: true, mode: 0o700 });
    return realpath(this.#root);
  }
}

async function toDirectory(directory: string, root: string): Promise<string> {
  if (!isAbsolute(directory)) {
    throw new SluiceError(
      "invalid_request",
      `The directory ${directory} is relative. Give an absolute path.`,
    );
  }
  const real = await realpath(directory).catch(() => undefined);
  if (real === undefined || !(await stat(real)).isDirectory()) {
    const detail = `There is no directory ${directory} on the server. Make it, name another one, or leave it out for a private one.`;
    throw new SluiceError("invalid_request", detail, { directory });
  }
  if (isInside(real, root)) {
    const detail = `The directory ${directory} belongs to sluice's own data. Name another one, or leave it out for a private one.`;
    throw new SluiceError("invalid_request", detail, { directory });
  }
  return real;
}
