import { rm } from "node:fs/promises";
import type { Sandbox } from "../../sandbox/port.ts";
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
import { createFiles, type Files, toToolServerHost } from "./files.ts";
import { createGit } from "./git.ts";
import type { Snapshots } from "./snapshots.ts";
import type { StoredEnv } from "./stored-env.ts";

export interface HandleOptions {
  readonly sandbox: Sandbox;
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
  readonly sandbox: Sandbox;
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
