import { randomUUID } from "node:crypto";
import { readdir, realpath } from "node:fs/promises";
import { join, posix, resolve } from "node:path";
import { SluiceError } from "../../contract/index.ts";
import { findCli } from "../../harness/launch/cli.ts";
import { defaultDataFolder } from "../../sandbox/data-folder.ts";
import { fillFolder } from "../../sandbox/host/files/copy-tree.ts";
import { toFolderName } from "../../sandbox/host/folder.ts";
import { hostProviders, type NetworkPolicy, type SandboxLimits } from "../../sandbox/index.ts";
import type { HostProvider, HostSandbox } from "../../sandbox/port.ts";
import type {
  TanStackCapabilities,
  TanStackCreateInput,
  TanStackHandle,
  TanStackMakeInput,
  TanStackProvider,
  TanStackRestoreInput,
} from "./contract.ts";
import { SandboxHandle, Snapshots, StoredEnv, toCapabilities } from "./handle.ts";

export interface SluiceSandboxOptions {
  /** A provider by name, or your own `SandboxProvider` (default: `bwrap`). */
  readonly provider?: "bwrap" | "local" | "docker" | HostProvider;
  /** The folder of sandboxes and snapshots (default: `tanstack` in sluice's data folder). */
  readonly dataDir?: string;
  /** Programs of this host for the sandbox, by name on PATH: `["claude"]`. */
  readonly programs?: readonly string[];
  /**
   * The default is every public host; only loopback if TanStack's policy denies the network. Every policy but `none`
   * allows the tool server.
   */
  readonly network?: NetworkPolicy;
  readonly limits?: SandboxLimits;
  /** The image, for providers with images. */
  readonly image?: string;
  /** A folder of this host as the workspace, instead of a private one. */
  readonly directory?: string;
}

/** Sluice's sandboxes for TanStack's harness adapters: `defineSandbox({ id, provider: sluiceSandbox({ … }) })`. */
export function sluiceSandbox(options: SluiceSandboxOptions = {}): TanStackProvider {
  return new SluiceSandboxProvider(options);
}

const EVERYWHERE: NetworkPolicy = { mode: "allow", hosts: ["*"] };

class SluiceSandboxProvider implements TanStackProvider {
  readonly name: string;
  readonly #options: SluiceSandboxOptions;
  readonly #dataDir: string;
  readonly #provider: HostProvider;
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

  /** The capabilities before there is a sandbox. For a custom provider only its handles know them all. */
  capabilities = (): TanStackCapabilities => {
    const isOurs = typeof (this.#options.provider ?? "bwrap") === "string";
    return toCapabilities({ files: isOurs, ports: isOurs, networkPolicy: this.#hasPolicy });
  };

  /** Reuses an existing sandbox of this id with its files, so that a thread survives a restart. */
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

  /** The programs of this host for the sandbox. Throws if one is not installed. */
  get #hostPrograms(): Programs {
    this.#programs ??= findPrograms(this.#options.programs ?? []);
    return this.#programs;
  }

  async #make(id: string, { policy }: TanStackMakeInput): Promise<HostSandbox> {
    // A missing program is an error before anything is created.
    void this.#hostPrograms;
    const { network, limits, image, directory } = this.#options;
    const isDenied = policy?.capabilities?.network === "deny";
    const asked = network ?? (isDenied ? ({ mode: "loopback" } as const) : undefined);
    return this.#provider.create({
      id,
      // A provider without isolation refuses every policy, so it gets only an explicit one.
      ...(asked === undefined && !this.#hasPolicy ? {} : { network: asked ?? EVERYWHERE }),
      ...(limits === undefined ? {} : { limits }),
      ...(image === undefined ? {} : { image }),
      ...(directory === undefined ? {} : { directory }),
    });
  }

  /** Copies the host's folder into a new workspace; destroys the sandbox if the copy fails. */
  async #fill(sandbox: HostSandbox, { workspace }: TanStackMakeInput): Promise<void> {
    const { type, path } = workspace?.source ?? {};
    const { folders, owner } = sandbox;
    if (type !== "local" || path === undefined || this.#options.directory !== undefined) return;
    if (!folders) throw new SluiceError("capability_missing", "This sandbox takes no files at its start.");
    const isFresh = (await readdir(folders.workspace)).every((name) => name === "output");
    if (!isFresh) return;
    try {
      await fillFolder(folders.workspace, await realpath(path), owner);
    } catch (error) {
      await sandbox.destroy();
      throw error;
    }
  }

  async #handle(sandbox: HostSandbox, vars: Readonly<Record<string, string>> = {}): Promise<SandboxHandle> {
    const { needs, place } = this.#hostPrograms;
    await place(sandbox);
    const folder = toFolderName(sandbox.id);
    const env = await StoredEnv.at(join(this.#dataDir, "env", `${folder}.json`));
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

  /** Creates a second, independent sandbox with the same files and environment. */
  async #fork(from: SandboxHandle, env: Readonly<Record<string, string>>): Promise<TanStackHandle> {
    const { id: snapshotId } = await from.snapshot("fork");
    try {
      return await this.restoreSnapshot({ snapshotId, env: { ...env } });
    } finally {
      await this.#snapshots.forget(snapshotId);
    }
  }
}

function toProvider(provider: NonNullable<SluiceSandboxOptions["provider"]>, dataDir: string): HostProvider {
  if (typeof provider !== "string") return provider;
  const known = hostProviders({ root: join(dataDir, "sandboxes"), hide: [dataDir] });
  const found = known.find(({ id }) => id === provider);
  if (found) return found;
  const ids = known.map(({ id }) => id).join(", ");
  const detail = `There is no sandbox provider ${provider}. Choose one of ${ids}.`;
  throw new SluiceError("unsupported_sandbox", detail);
}

/** Programs of this host for a sandbox. */
export interface Programs {
  readonly needs: readonly string[];
  /** Links the programs into the sandbox's PATH. */
  place(sandbox: HostSandbox): Promise<void>;
}

function findPrograms(names: readonly string[]): Programs {
  const found = names.map((name) => {
    const cli = findCli(name);
    if (cli) return { name, ...cli };
    const detail = `The program ${name} is not on the PATH of this process, so no sandbox can have it. Install it, or leave it out.`;
    throw new SluiceError("agent_not_installed", detail, { program: name });
  });
  return {
    needs: [...new Set(found.flatMap(({ path, needs }) => [path, ...needs]))],
    async place({ isolated, files, paths }) {
      // A sandbox without isolation has this process's PATH.
      if (!isolated) return;
      for (const { name, path } of found) {
        const link = posix.join(paths.home, ".local/bin", name);
        const isThere = await files.stat(link).catch(() => undefined);
        if (!isThere) await files.symlink?.(link, path);
      }
    },
  };
}
