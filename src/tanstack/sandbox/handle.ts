import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type Checkpoints, createCheckpoints, createFolderStorage } from "../../sandbox/index.ts";
import type { HostSandbox } from "../../sandbox/port.ts";
import { Commands, toFolder } from "./commands.ts";
import {
  type TanStackCapabilities,
  type TanStackFiles,
  type TanStackGit,
  type TanStackHandle,
  type TanStackProcess,
  type TanStackSnapshot,
  toUnsupported,
} from "./contract.ts";
import { CONTROL_PATTERNS, createFiles, type Files, toToolServerHost } from "./files.ts";
import { createGit } from "./git.ts";

export interface HandleOptions {
  readonly sandbox: HostSandbox;
  readonly name: string;
  readonly env: StoredEnv;
  readonly needs: readonly string[];
  /** The folder of the commands' streams. */
  readonly spools: string;
  readonly snapshots: Snapshots;
  readonly networkPolicy: boolean;
  readonly fork: (from: SandboxHandle) => Promise<TanStackHandle>;
  readonly destroyed: (id: string) => void;
}

/** A sluice sandbox for TanStack's harness adapters and middleware. */
export class SandboxHandle implements TanStackHandle {
  readonly id: string;
  readonly provider: string;
  readonly workspaceRoot?: string;
  readonly capabilities: TanStackCapabilities;
  readonly fs: TanStackFiles;
  readonly git: TanStackGit;
  readonly process: TanStackProcess;
  readonly ports: TanStackHandle["ports"];
  readonly env: TanStackHandle["env"];
  readonly sandbox: HostSandbox;
  readonly #options: HandleOptions;
  readonly #commands: Commands;
  readonly #files: Files;
  readonly #toolServers = new Set<string>();

  constructor(options: HandleOptions) {
    const { sandbox, name, env, needs, spools } = options;
    this.id = sandbox.id;
    this.provider = name;
    this.sandbox = sandbox;
    this.#options = options;
    // Without isolation, the workspace is not at the usual path.
    if (!sandbox.isolated) this.workspaceRoot = sandbox.paths.workspace;
    this.capabilities = toCapabilities({
      files: sandbox.folders !== undefined,
      ports: sandbox.host !== undefined,
      networkPolicy: options.networkPolicy,
    });
    this.#commands = new Commands({
      sandbox,
      folder: spools,
      needs,
      env: () => env.vars,
      hosts: () => [...this.#toolServers],
    });
    this.process = this.#commands;
    this.#files = createFiles({
      sandbox,
      name,
      wrote: (path, data) => {
        const host = sandbox.isolated ? toToolServerHost(path, data) : undefined;
        if (host !== undefined) this.#toolServers.add(host);
      },
    });
    this.fs = this.#files.fs;
    this.git = createGit(this.#commands, (dir) => toFolder(dir, sandbox));
    this.ports = { connect: (port) => this.#connect(port) };
    this.env = { set: (vars) => env.set(vars) };
  }

  snapshot = (label?: string): Promise<TanStackSnapshot> => this.#options.snapshots.take(this.sandbox, label);

  fork = (): Promise<TanStackHandle> => this.#options.fork(this);

  destroy = async (): Promise<void> => {
    await this.#files.release();
    await this.sandbox.destroy();
    this.#commands.abandon();
    this.#options.destroyed(this.id);
    await this.#options.env.remove();
    await rm(this.#options.spools, { recursive: true, force: true });
  };

  async #connect(port: number): Promise<{ url: string }> {
    const { sandbox, name } = this.#options;
    if (!sandbox.host)
      throw await toUnsupported(name, "ports", "Its ports cannot be reached from this host.");
    return { url: (await sandbox.host(port)).origin };
  }
}

export function toCapabilities(of: {
  files: boolean;
  ports: boolean;
  networkPolicy: boolean;
}): TanStackCapabilities {
  return {
    fs: true,
    exec: true,
    env: true,
    ports: of.ports,
    backgroundProcesses: true,
    writableStdin: true,
    snapshots: of.files,
    networkPolicy: of.networkPolicy,
    durableFilesystem: true,
    fork: of.files,
    killableProcesses: true,
  };
}

/** The environment of a sandbox's commands, in a private file. It may have secrets, so it is in no snapshot. */
export class StoredEnv {
  readonly #file: string;
  #vars: Readonly<Record<string, string>>;

  private constructor(file: string, vars: Readonly<Record<string, string>>) {
    this.#file = file;
    this.#vars = vars;
  }

  static async at(file: string): Promise<StoredEnv> {
    const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return "{}";
      throw error;
    });
    return new StoredEnv(file, JSON.parse(text) as Record<string, string>);
  }

  get vars(): Readonly<Record<string, string>> {
    return this.#vars;
  }

  async set(vars: Readonly<Record<string, string>>): Promise<void> {
    this.#vars = { ...this.#vars, ...vars };
    await mkdir(dirname(this.#file), { recursive: true, mode: 0o700 });
    await writeFile(`${this.#file}.new`, JSON.stringify(this.#vars), { mode: 0o600 });
    await rename(`${this.#file}.new`, this.#file);
  }

  remove(): Promise<void> {
    return rm(this.#file, { force: true });
  }
}

/** TanStack's snapshots, stored as checkpoints: without credentials, and independent of their sandbox. */
export class Snapshots {
  readonly #checkpoints: Checkpoints;
  readonly #name: string;

  constructor({ dataDir, name }: { dataDir: string; name: string }) {
    this.#name = name;
    this.#checkpoints = createCheckpoints({
      storage: createFolderStorage(join(dataDir, "checkpoints")),
      cacheFolder: join(dataDir, "checkpoint-cache"),
      never: [dataDir],
    });
  }

  async take(sandbox: HostSandbox, label?: string): Promise<TanStackSnapshot> {
    const { info } = await this.#checkpoints.checkpoint({
      roots: await this.#rootsOf(sandbox),
      sessionId: sandbox.id,
      // Installed packages are included: to keep them is the purpose of a snapshot.
      exclude: { workspace: CONTROL_PATTERNS },
      ...(label === undefined ? {} : { comment: label }),
    });
    return { id: info.id, ...(label === undefined ? {} : { label }) };
  }

  async restore(id: string, sandbox: HostSandbox, signal?: AbortSignal): Promise<void> {
    const { owner } = sandbox;
    const roots = await this.#rootsOf(sandbox);
    await this.#checkpoints.restore(id, { roots, signal, owner });
  }

  async forget(id: string): Promise<void> {
    await this.#checkpoints.remove(id);
  }

  async #rootsOf({ folders }: HostSandbox): Promise<{ workspace: string; home: string }> {
    if (folders) return { workspace: folders.workspace, home: folders.home };
    throw await toUnsupported(this.#name, "snapshots", "Its files are not on this host.");
  }
}
