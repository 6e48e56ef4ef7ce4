import { SluiceError } from "../../../contract/index.ts";
import { CloudProvider } from "../../cloud/provider.ts";
import { listSandboxes, makeRoot } from "../../host/folder.ts";
import type { Sandbox, SandboxClaim } from "../../port.ts";
import { DEFAULT_IMAGE } from "../provider.ts";
import { DockerVendor } from "./vendor.ts";

export interface RemoteDockerOptions {
  /** The address of the engine: `tcp://host:port` with TLS, or `ssh://user@host`. */
  readonly host: string;
  /** The folder of the records of sandboxes on other machines. */
  readonly records: string;
  /** The parent folder of this machine's sandboxes. */
  readonly root: string;
  /** The image of sandboxes whose session names none; by default that of SLUICE_DOCKER_IMAGE. */
  readonly image?: string;
  /** The environment with the settings of Docker and SSH. */
  readonly env?: NodeJS.ProcessEnv;
}

/** Runs each sandbox in a container of an engine on another machine. */
export class RemoteDockerProvider extends CloudProvider {
  readonly #root: string;
  readonly #host: string;

  constructor({ host, records, root, image, env = process.env }: RemoteDockerOptions) {
    const given = image ?? (env["SLUICE_DOCKER_IMAGE"] || DEFAULT_IMAGE);
    super(new DockerVendor({ host, env, image: given }), records);
    this.#root = root;
    this.#host = host;
  }

  override async connect(id: string, claim?: SandboxClaim): Promise<Sandbox | undefined> {
    const found = await super.connect(id, claim);
    if (found) return found;
    const local = await listSandboxes(await makeRoot(this.#root), this.id);
    if (!local.some((sandbox) => sandbox.id === id)) return undefined;
    const detail = `The sandbox ${id} is on this machine's engine, and DOCKER_HOST names ${this.#host}. Set it back to reach the sandbox.`;
    throw new SluiceError("sandbox_unreachable", detail);
  }
}
