import { randomUUID } from "node:crypto";
import { readdir, realpath } from "node:fs/promises";
import { join, resolve } from "node:path";
import { SluiceError } from "../../contract/index.ts";
import { defaultDataFolder } from "../../sandbox/dataFolder.ts";
import { toFolderName } from "../../sandbox/host/folder.ts";
import { fillFolder } from "../../sandbox/host/copy-tree.ts";
import { defaultProviders, type NetworkPolicy, type SandboxLimits } from "../../sandbox/index.ts";
import type { Sandbox, SandboxProvider } from "../../sandbox/port.ts";
import type {
  TanStackCapabilities,
  TanStackCreateInput,
  TanStackHandle,
  TanStackMakeInput,
  TanStackProvider,
  TanStackRestoreInput,
} from "./contract.ts";
import { SandboxHandle, toCapabilities } from "./handle.ts";
import { KeptEnv } from "./keptEnv.ts";
import { findPrograms, type Programs } from "./programs.ts";
import { Snapshots } from "./snapshots.ts";

export interface SluiceSandboxOptions {
  /** One of ours by its name (`bwrap`, `local`, `docker`), or any that keeps to our port. `bwrap` unless said otherwise. */
  readonly provider?: "bwrap" | "local" | "docker" | SandboxProvider;
  /** Where sandboxes and snapshots are kept: `tanstack` in sluice's data folder unless said otherwise. */
  readonly dataDir?: string;
  /** Programs of this host that the sandbox has too, by their names on PATH: `["claude"]`. */
  readonly programs?: readonly string[];
  /** Every public host unless said otherwise; none where TanStack's policy denies the network. The bridge to the application's tools is open in any case but `none`. */
  readonly network?: NetworkPolicy;
  readonly limits?: SandboxLimits;
  /** For providers that have images. */
  readonly image?: string;
  /** A folder of this host to work in, instead of a private one. */
  readonly directory?: string;
}

/** Our sandboxes for TanStack's own harness adapters: `defineSandbox({ id, provider: sluiceSandbox({ … }) })`. */
export function sluiceSandbox(options: SluiceSandboxOptions = {}): TanStackProvider {
  return new SluiceSandboxProvider(options);
}

const EVERYWHERE: NetworkPolicy = { mode: "allow", hosts: ["*"] };

class SluiceSandboxProvider implements TanStackProvider {
  readonly name: string;
  readonly #options: SluiceSandboxOptions;
  readonly #dataDir: string;
  readonly #provider: SandboxProvider;
  readonly #snapshots: Snapshots;
  readonly #open = new Map<string, SandboxHandle>();
  #programs: Programs | undefined;

  constructor(options: SluiceSandboxOptions) {
    this.#options = options;
    this.#dataDir = resolve(options.dataDir ?? join(defaultDataFolder(), "tanstack"));
    this.#provider = toProvider(options.provider ?? "bwrap", this.#dataDir);
    this.name = `sluice-${this.#provider.id}`;
    this.#snapshots = new Snapshots({ dataDir: this.#dataDir, name: this.name });
  }

  /** Of a provider that is not ours only what every one has: what more a sandbox of it can do, its handle says. */
  capabilities = (): TanStackCapabilities => {
    const isOurs = typeof (this.#options.provider ?? "bwrap") === "string";
    return toCapabilities({ files: isOurs, ports: isOurs, networkPolicy: this.#hasPolicy });
  };

  /** One that is there already under this id is taken over with its files: what a thread did is never lost to a restart. */
  create = async (input: TanStackCreateInput): Promise<TanStackHandle> => {
    const sandbox = await this.#make(input.id ?? randomUUID(), input);
    await this.#fill(sandbox, input);
    return this.#handle(sandbox, input.env);
  };

  resume = async ({ id }: { id: string }): Promise<TanStackHandle | null> => {
    const open = this.#open.get(id);
    if (open) return open;
    const sandbox = await this.#provider.connect(id);
    return sandbox ? this.#handle(sandbox) : null;
  };

  restoreSnapshot = async (input: TanStackRestoreInput): Promise<TanStackHandle> => {
    const sandbox = await this.#make(randomUUID(), input);
    try {
      await this.#snapshots.restore(input.snapshotId, sandbox, input.signal);
    } catch (error) {
      await sandbox.destroy();
      throw error;
    }
    return this.#handle(sandbox, input.env);
  };

  destroy = async ({ id }: { id: string }): Promise<void> => {
    const handle = await this.resume({ id });
    await handle?.destroy();
  };

  get #hasPolicy(): boolean {
    return this.#provider.isolated !== false;
  }

  /** Looked for before anything is made. */
  get #wanted(): Programs {
    this.#programs ??= findPrograms(this.#options.programs ?? []);
    return this.#programs;
  }

  async #make(id: string, { policy }: TanStackMakeInput): Promise<Sandbox> {
    void this.#wanted;
    const { network, limits, image, directory } = this.#options;
    const isDenied = policy?.capabilities?.network === "deny";
    const asked = network ?? (isDenied ? ({ mode: "loopback" } as const) : undefined);
    return this.#provider.create({
      id,
      // A provider without isolation is asked for a policy only where somebody wants one, and refuses it then.
      ...(asked === undefined && !this.#hasPolicy ? {} : { network: asked ?? EVERYWHERE }),
      ...(limits === undefined ? {} : { limits }),
      ...(image === undefined ? {} : { image }),
      ...(directory === undefined ? {} : { directory }),
    });
  }

  /** A workspace that is a copy of a folder of this host begins with it; half a copy is none. */
  async #fill(sandbox: Sandbox, { workspace }: TanStackMakeInput): Promise<void> {
    const { type, path } = workspace?.source ?? {};
    const { folders, owner } = sandbox;
    if (type !== "local" || path === undefined || this.#options.directory !== undefined) return;
    if (!folders)
      throw new SluiceError("capability_missing", "This sandbox cannot be given files at its start.");
    const isFresh = (await readdir(folders.workspace)).every((name) => name === "output");
    if (!isFresh) return;
    try {
      await fillFolder(folders.workspace, await realpath(path), owner);
    } catch (error) {
      await sandbox.destroy();
      throw error;
    }
  }

  async #handle(sandbox: Sandbox, vars: Readonly<Record<string, string>> = {}): Promise<SandboxHandle> {
    const { needs, place } = this.#wanted;
    await place(sandbox);
    const folder = toFolderName(sandbox.id);
    const env = await KeptEnv.at(join(this.#dataDir, "env", `${folder}.json`));
    if (Object.keys(vars).length > 0) await env.set(vars);
    const handle = new SandboxHandle({
      sandbox,
      name: this.name,
      env,
      needs,
      spools: join(this.#dataDir, "spools", folder),
      snapshots: this.#snapshots,
      networkPolicy: this.#hasPolicy,
      fork: (from) => this.#fork(from, env.vars),
      destroyed: (id) => void this.#open.delete(id),
    });
    this.#open.set(sandbox.id, handle);
    return handle;
  }

  /** A second sandbox with the same files and variables, which goes its own way. */
  async #fork(from: SandboxHandle, env: Readonly<Record<string, string>>): Promise<TanStackHandle> {
    const { id: snapshotId } = await from.snapshot("fork");
    try {
      return await this.restoreSnapshot({ snapshotId, env: { ...env } });
    } finally {
      await this.#snapshots.forget(snapshotId);
    }
  }
}

function toProvider(
  provider: NonNullable<SluiceSandboxOptions["provider"]>,
  dataDir: string,
): SandboxProvider {
  if (typeof provider !== "string") return provider;
  const known = defaultProviders({ root: join(dataDir, "sandboxes"), hide: [dataDir] });
  const found = known.find(({ id }) => id === provider);
  if (found) return found;
  const ids = known.map(({ id }) => id).join(", ");
  throw new SluiceError(
    "unsupported_sandbox",
    `There is no sandbox provider ${provider}. Choose one of ${ids}.`,
  );
}
