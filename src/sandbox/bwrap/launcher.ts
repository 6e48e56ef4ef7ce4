import type { ChildProcess, StdioOptions } from "node:child_process";
import { closeSync } from "node:fs";
import { join, relative } from "node:path";
import type { Duplex } from "node:stream";
import { SluiceError } from "../../contract/index.ts";
import { chmod } from "../../disk/sync-files.ts";
import type { EgressHostStart } from "../egress/egress.ts";
import { foldersAbove, isInside, PINNED, toMappedPath } from "../host/files/paths.ts";
import { demandDirectory, type SandboxFolder, type SandboxRecord } from "../host/folder.ts";
import { toNotJoined, type Enclosure } from "../host/processes/enclosure.ts";
import { buildEnvironment, ID_VARIABLE, KEY_VARIABLE } from "../host/processes/environment.ts";
import { endTree } from "../host/processes/kill.ts";
import { findChild, identify, type ProcessIdentity } from "../host/processes/procfs.ts";
import { startProgram } from "../host/start.ts";
import {
  buildCommandOptions,
  buildHolderOptions,
  openUnnamedFile,
  toArgumentBytes,
  toOuterPath,
  type BwrapContext,
  type CommandView,
  type NetworkEntry,
} from "./arguments.ts";
import { findPrivateMounts, toDropPrefix, toRlimitPrefix } from "./prefixes.ts";
import { awaitReady, RESIDENT_COMMAND } from "./resident.ts";
import { toSeccompFilter } from "./seccomp.ts";
import { findInnerPath, findSharedEtc, isOfSystem, makeEtc, resolveNeeds } from "./system.ts";

/** Descriptors that the spool's wrapper does not use. */
const ARGUMENTS_FD = 6;
const SECCOMP_FD = 7;
const TIE_FD = 8;

type Stdio = "ignore" | "pipe" | number | Duplex;

/** Turns a command into a process of the sandbox: group, wrapper, user, network, bwrap, limits, command. */
export class Launcher {
  readonly #folder: SandboxFolder;
  readonly #record: SandboxRecord;
  readonly #context: BwrapContext;
  readonly #enclosure: Enclosure;
  #etc: string | undefined;

  constructor(sandbox: {
    folder: SandboxFolder;
    record: SandboxRecord;
    context: BwrapContext;
    enclosure: Enclosure;
  }) {
    this.#folder = sandbox.folder;
    this.#record = sandbox.record;
    this.#context = sandbox.context;
    this.#enclosure = sandbox.enclosure;
  }

  /** Starts a command in the sandbox, in the network that `entry` leads to. */
  async start(
    argv: readonly string[],
    options: {
      cwd: string;
      entry: NetworkEntry;
      stdio: readonly Stdio[];
      wrapper?: readonly string[];
      env?: Readonly<Record<string, string>> | undefined;
      needs?: readonly string[] | undefined;
    },
  ): Promise<ChildProcess> {
    const { cwd, entry, stdio, wrapper = [], needs = [] } = options;
    const mounts = [...(await resolveNeeds(needs, this.#context.hide)), ...entry.mounts].filter(
      ({ inside }) => !isOfSystem(inside),
    );
    const { workspace, home, uploads } = this.#folder.paths(this.#record.directory);
    const directory = this.#record.directory === undefined ? [] : [workspace];
    const sources = [this.#folder.path, ...directory, ...mounts.map(({ host }) => host)];
    const reach = await findPrivateMounts(sources, this.#record.owner);
    const hidden = this.#context.hide.filter((path) => path !== workspace && isInside(path, workspace));
    const view: CommandView = {
      folders: {
        workspace: reach.at(workspace),
        home: reach.at(home),
        uploads: reach.at(uploads),
        tmp: reach.at(this.#folder.tmp),
        etc: reach.at(this.#etc ?? (await this.#makeEtc())),
      },
      mounts: mounts.map(({ host, inside, writable }) => ({ host: reach.at(host), inside, writable })),
      hidden: hidden.map((path) => toInside(path, workspace)),
      pinned: foldersAbove(hidden, workspace).map((path) => ({
        host: reach.at(path),
        inside: toInside(path, workspace),
        writable: true,
      })),
      env: this.#environment({ ...entry.env, ...options.env }, await findInnerPath(needs)),
      cwd,
      shmBytes: Math.floor((this.#record.limits?.memoryBytes ?? 1024 ** 3) / 2),
      isHostRoot: this.#record.owner === undefined && process.geteuid?.() === 0,
      seccomp: this.#filter === undefined ? undefined : SECCOMP_FD,
      tie: entry.tie === undefined ? undefined : TIE_FD,
    };
    const before = [...wrapper, ...reach.prefix, ...this.#drop, ...entry.prefix];
    return this.#startBwrap(before, {
      options: await buildCommandOptions(view),
      argv: [...toRlimitPrefix(this.#record), ...argv],
      stdio,
      tie: entry.tie,
    });
  }

  /**
   * Starts bwrap. Its child holds the network namespace. The child of that child waits until no writer of the tie is
   * left.
   */
  async startHolder(stdin: number): Promise<{ holder: ProcessIdentity; waiting: ProcessIdentity }> {
    const options = await buildHolderOptions(this.#markers);
    const stdio = [stdin, "pipe", "pipe"] as const;
    const command = { options, argv: RESIDENT_COMMAND, stdio, reports: true };
    const child = await this.#startBwrap(this.#drop, command);
    await this.#untilReady(child, "its network");
    await this.#enclosure.members.add(child.pid as number);
    // Commands enter the network by bwrap's child: its user namespace owns the network.
    const inside = await findChild(child.pid as number);
    const waiting = inside === undefined ? undefined : await findChild(inside);
    if (inside === undefined || waiting === undefined) {
      const detail =
        "The process that holds the sandbox's network ended at once. Something ended it; try again.";
      throw new ResidentFailure("internal", detail);
    }
    return { holder: await identify(inside), waiting: await identify(waiting) };
  }

  /** Starts a resident in the sandbox, with this prefix before its command. */
  async startInside(prefix: readonly string[], entry: NetworkEntry, stdin: number): Promise<ProcessIdentity> {
    const stdio = [stdin, "pipe", "pipe"] as const;
    const child = await this.start([...prefix, ...RESIDENT_COMMAND], { cwd: "/", entry, stdio });
    await this.#untilReady(child, "its egress proxy");
    await this.#enclosure.members.add(child.pid as number);
    return identify(child.pid as number);
  }

  /** Starts a program on this host, as a member of the sandbox. */
  async startOutside({ argv, env: own, cwd }: EgressHostStart): Promise<ProcessIdentity> {
    const env = { ...this.#outerEnv, ...own };
    return identify(await this.#enclosure.start(argv, { cwd, env, stdio: "ignore" }));
  }

  /** Makes the sandbox's folders, which belong to its user, and its /etc. */
  async makeFolders(): Promise<void> {
    const { owner, directory } = this.#record;
    this.#folder.makeParts(this.#record);
    if (directory !== undefined) demandDirectory(directory);
    // The parent folder keeps other users out. The sandbox's user has to pass through this one.
    if (owner !== undefined) await chmod(this.#folder.path, 0o711);
    this.#etc = await this.#makeEtc();
  }

  /** The host path of a program that a launch names by its path inside. */
  toHostPath(path: string): string {
    if (!path.startsWith(`${PINNED.home}/`)) return path;
    return toMappedPath(path, PINNED, PINNED.home, this.#folder.paths(this.#record.directory)).host;
  }

  isVisible(path: string, needs: readonly string[]): boolean {
    return isOfSystem(path) || isInside(path, PINNED.home) || needs.some((need) => isInside(path, need));
  }

  /** In the host's network UNIX sockets could reach the host's own, so there they need the scope prefix. */
  get #filter(): Buffer | undefined {
    return toSeccompFilter({ unixSockets: !this.#isHostNetwork || this.#context.scope !== undefined });
  }

  /** In the host's network resolv.conf may differ from start to start. All other sandboxes share one /etc. */
  async #makeEtc(): Promise<string> {
    const shared = this.#isHostNetwork ? undefined : await findSharedEtc();
    if (shared !== undefined) return shared;
    const own = join(this.#folder.path, "etc");
    if (this.#etc !== own) await makeEtc(own, { network: this.#isHostNetwork ? "host" : "own" });
    return own;
  }

  get #isHostNetwork(): boolean {
    return this.#record.network?.mode === "full";
  }

  get #drop(): string[] {
    return this.#record.owner === undefined ? [] : toDropPrefix(this.#record.owner);
  }

  /** bwrap's own environment, readable inside as /proc/1/environ. Its markers tell to which sandbox a process belongs. */
  get #outerEnv(): Record<string, string> {
    return { PATH: toOuterPath(this.#context.bwrap), ...this.#markers };
  }

  get #markers(): Record<string, string> {
    return { [ID_VARIABLE]: this.#record.id, [KEY_VARIABLE]: this.#folder.key };
  }

  #environment(env: Readonly<Record<string, string>>, path: string): Record<string, string> {
    return buildEnvironment({
      id: this.#record.id,
      key: this.#folder.key,
      home: PINNED.home,
      tmp: "/tmp",
      path,
      user: "user",
      env: [this.#record.env, env],
    });
  }

  async #startBwrap(
    before: readonly string[],
    command: {
      options: readonly string[];
      argv: readonly string[];
      stdio: readonly Stdio[];
      tie?: number | undefined;
      reports?: boolean;
    },
  ): Promise<ChildProcess> {
    const prefix = await this.#enclosure.prefix({ reports: command.reports ?? false });
    const bwrap = [this.#context.bwrap, "--args", String(ARGUMENTS_FD), "--"];
    const argv = [...prefix, ...before, ...bwrap, ...command.argv];
    const unnamed: number[] = [];
    try {
      for (const bytes of [toArgumentBytes(command.options), this.#filter ?? Buffer.alloc(0)]) {
        unnamed.push(openUnnamedFile(this.#folder.path, bytes));
      }
      const streams: StdioOptions = [...command.stdio, "ignore", "ignore", "ignore", ...unnamed];
      if (command.tie !== undefined) streams.push(command.tie);
      // The caller has to listen before the process can end, so it must not await anything after this.
      return await startProgram(argv, { cwd: "/", env: this.#outerEnv, stdio: streams });
    } finally {
      for (const fd of unnamed) closeSync(fd);
    }
  }

  async #untilReady(child: ChildProcess, what: string): Promise<void> {
    try {
      await awaitReady(child);
    } catch (error) {
      await endTree(child.pid as number);
      const notJoined = toNotJoined(error as Error);
      if (notJoined !== undefined) throw notJoined;
      const detail = `The sandbox could not be given ${what}: ${(error as Error).message}.`;
      throw new ResidentFailure("internal", detail, {}, { cause: error });
    }
  }
}

/** A resident that ended at its start. Another process may have killed it, so another attempt may succeed. */
export class ResidentFailure extends SluiceError {}

function toInside(path: string, workspace: string): string {
  return join(PINNED.workspace, relative(workspace, path));
}
