import type { ChildProcess, StdioOptions } from "node:child_process";
import { closeSync } from "node:fs";
import { join, relative } from "node:path";
import type { Duplex } from "node:stream";
import { chmod, mkdir } from "../../disk/onTheSpot.ts";
import { SluiceError } from "../../contract/index.ts";
import { demandDirectory } from "../host/directory.ts";
import { toNotJoined, type Enclosure } from "../host/enclosure.ts";
import { KEY_MARKER, MARKER, toEnvironment } from "../host/environment.ts";
import type { SandboxFolder, SandboxRecord } from "../host/folder.ts";
import { foldersBetween, isInside, PINNED, toMappedPath } from "../host/mapping.ts";
import { startProgram } from "../host/start.ts";
import { toArgumentBytes, toCommandOptions, toHolderOptions, type Mount } from "./arguments.ts";
import { toDropPrefix, toOuterPath } from "./detect.ts";
import { makeEtc } from "./etc.ts";
import { toInnerPath, toNeeds } from "./needs.ts";
import { toRlimitPrefix } from "./rlimits.ts";
import { awaitReady, endTree, findChild, RESIDENT_COMMAND, toResident, type Resident } from "./resident.ts";
import type { Way } from "./network.ts";
import type { BwrapContext } from "./sandbox.ts";
import { openSealed } from "./sealed.ts";
import { findSharedEtc } from "./sharedEtc.ts";
import { toSeccompFilter } from "./seccomp.ts";
import { toStage, type Stage } from "./stage.ts";
import { isOfSystem } from "./system.ts";

/** Descriptors that the wrapper of a spool leaves alone. */
const ARGUMENTS_FD = 6;
const SECCOMP_FD = 7;
const TIE_FD = 8;

type Stdio = "ignore" | "pipe" | number | Duplex;

export interface PreparedCommand {
  readonly argv: readonly string[];
  readonly options: readonly string[];
  readonly stage: Stage;
}

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

  async prepare(
    argv: readonly string[],
    options: {
      env: Readonly<Record<string, string>>;
      needs: readonly string[];
      mounts?: readonly Mount[];
      cwd: string;
      tied: boolean;
    },
  ): Promise<PreparedCommand> {
    const mounts = [...(await toNeeds(options.needs, this.#context.hide)), ...(options.mounts ?? [])].filter(
      ({ inside }) => !isOfSystem(inside),
    );
    const { workspace, home, uploads } = this.#folder.paths(this.#record.directory);
    const own = this.#record.directory === undefined ? [] : [workspace];
    const sources = [this.#folder.path, ...own, ...mounts.map(({ host }) => host)];
    const stage = await toStage(sources, this.#record.owner);
    const env = this.#toEnvironment(options.env, await toInnerPath(options.needs));
    const { tmp } = this.#folder;
    const view = await toCommandOptions({
      folders: {
        workspace: stage.at(workspace),
        home: stage.at(home),
        uploads: stage.at(uploads),
        tmp: stage.at(tmp),
        etc: stage.at(this.#etc ?? (await this.#makeEtc())),
      },
      mounts: mounts.map(({ host, inside, writable }) => ({ host: stage.at(host), inside, writable })),
      hidden: this.#hidden(workspace).map((path) => toInside(path, workspace)),
      pinned: this.#pinned(workspace).map((path) => ({
        host: stage.at(path),
        inside: toInside(path, workspace),
        writable: true,
      })),
      env,
      cwd: options.cwd,
      shmBytes: Math.floor((this.#record.limits?.memoryBytes ?? 1024 ** 3) / 2),
      isHostRoot: this.#record.owner === undefined && process.geteuid?.() === 0,
      seccomp: this.#filter === undefined ? undefined : SECCOMP_FD,
      tie: options.tied ? TIE_FD : undefined,
    });
    const limited = [...toRlimitPrefix(this.#record), ...argv];
    return { argv: limited, options: view, stage };
  }

  async start(
    command: PreparedCommand,
    how: {
      wrapper: readonly string[];
      way: Way;
      stdio: readonly Stdio[];
    },
  ): Promise<ChildProcess> {
    const before = [...how.wrapper, ...command.stage.prefix, ...this.#drop, ...how.way.prefix];
    return this.#startBwrap(before, {
      options: command.options,
      argv: command.argv,
      stdio: how.stdio,
      tie: how.way.tie,
    });
  }

  /** The process whose network all others enter, and the one that waits for their end. */
  async startHolder(stdin: number): Promise<{ holder: Resident; waiting: Resident }> {
    const options = await toHolderOptions(this.#markers);
    const stdio = [stdin, "pipe", "pipe"] as const;
    const child = await this.#startBwrap(this.#drop, {
      options,
      argv: RESIDENT_COMMAND,
      stdio,
      tie: undefined,
      reports: true,
    });
    await this.#untilReady(child, "its network");
    await this.#enclosure.members.add(child.pid as number);
    // The network belongs to the user namespace that bwrap's child is in.
    const inside = await findChild(child.pid as number);
    const command = inside === undefined ? undefined : await findChild(inside);
    if (inside === undefined || command === undefined) {
      const detail =
        "The process that holds the sandbox's network ended at once. Something ended it; try again.";
      throw new SluiceError("internal", detail);
    }
    return { holder: await toResident(inside), waiting: await toResident(command) };
  }

  async startInside(
    prefix: readonly string[],
    options: { mounts: readonly Mount[]; way: Way; stdin: number },
  ): Promise<Resident> {
    const { mounts, way, stdin } = options;
    const argv = [...prefix, ...RESIDENT_COMMAND];
    const command = await this.prepare(argv, { env: {}, needs: [], mounts, cwd: "/", tied: false });
    const child = await this.start(command, { wrapper: [], way, stdio: [stdin, "pipe", "pipe"] });
    await this.#untilReady(child, "its network bridge");
    await this.#enclosure.members.add(child.pid as number);
    return toResident(child.pid as number);
  }

  async startOutside(
    argv: readonly string[],
    options: { env: Readonly<Record<string, string>>; cwd: string },
  ): Promise<Resident> {
    const env = { ...this.#outerEnv, ...options.env };
    const prefix = await this.#enclosure.prefix();
    const child = await startProgram([...prefix, ...argv], { cwd: options.cwd, env, stdio: "ignore" });
    child.unref();
    await this.#enclosure.members.add(child.pid as number);
    return toResident(child.pid as number);
  }

  /** The folders of the sandbox, each its user's, and the files of its /etc. */
  async makeFolders(): Promise<void> {
    const { owner, directory } = this.#record;
    await mkdir(this.#folder.path, { recursive: true, mode: 0o700 });
    this.#folder.makeParts(this.#record);
    if (directory !== undefined) demandDirectory(directory);
    // Others are kept out by the folder above; who runs inside has to walk through this one.
    if (owner !== undefined) await chmod(this.#folder.path, 0o711);
    this.#etc = await this.#makeEtc();
  }

  /** Where a program lies that was named by its path inside. */
  toHostPath(path: string): string {
    if (!path.startsWith(`${PINNED.home}/`)) return path;
    return toMappedPath(path, PINNED, PINNED.home, this.#folder.paths(this.#record.directory)).host;
  }

  isVisible(path: string, needs: readonly string[]): boolean {
    return isOfSystem(path) || isInside(path, PINNED.home) || needs.some((need) => isInside(path, need));
  }

  /** Where the network is the host's, UNIX sockets need something that keeps the host's own away. */
  get #filter(): Buffer | undefined {
    const isApart = this.#record.network?.mode !== "full" || this.#context.scope !== undefined;
    return toSeccompFilter({ unixSockets: isApart });
  }

  /** Names of the host's own network may change with every start; what else is in it is the same for all. */
  async #makeEtc(): Promise<string> {
    const isShared = this.#record.network?.mode === "full";
    const shared = isShared ? undefined : await findSharedEtc();
    if (shared !== undefined) return shared;
    const own = join(this.#folder.path, "etc");
    if (this.#etc !== own) await makeEtc(own, { network: isShared ? "host" : "own" });
    return own;
  }

  get #drop(): string[] {
    return this.#record.owner === undefined ? [] : toDropPrefix(this.#record.owner);
  }

  /** bwrap's own: in there, /proc/1/environ shows it to everybody. It is how the processes inside are found again. */
  get #outerEnv(): Record<string, string> {
    return { PATH: toOuterPath(this.#context.bwrap), ...this.#markers };
  }

  get #markers(): Record<string, string> {
    return { [MARKER]: this.#record.id, [KEY_MARKER]: this.#folder.key };
  }

  #hidden(workspace: string): string[] {
    return this.#context.hide.filter((path) => path !== workspace && isInside(path, workspace));
  }

  #pinned(workspace: string): string[] {
    return [...new Set(this.#hidden(workspace).flatMap((path) => foldersBetween(workspace, path)))].sort();
  }

  #toEnvironment(env: Readonly<Record<string, string>>, path: string): Record<string, string> {
    return toEnvironment({
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
      tie: number | undefined;
      reports?: boolean;
    },
  ): Promise<ChildProcess> {
    const prefix = await this.#enclosure.prefix({ reports: command.reports ?? false });
    const argv = [
      ...prefix,
      ...before,
      this.#context.bwrap,
      "--args",
      String(ARGUMENTS_FD),
      "--",
      ...command.argv,
    ];
    const sealed: number[] = [];
    try {
      for (const bytes of [toArgumentBytes(command.options), this.#filter ?? Buffer.alloc(0)]) {
        sealed.push(openSealed(this.#folder.path, bytes));
      }
      const streams: StdioOptions = [...command.stdio, "ignore", "ignore", "ignore", ...sealed];
      if (command.tie !== undefined) streams.push(command.tie);
      // Nothing is awaited behind it: whoever wants the output has to listen before the process can have ended.
      return await startProgram(argv, { cwd: "/", env: this.#outerEnv, stdio: streams });
    } finally {
      for (const fd of sealed) closeSync(fd);
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
      throw new SluiceError("internal", detail, {}, { cause: error });
    }
  }
}

function toInside(path: string, workspace: string): string {
  return join(PINNED.workspace, relative(workspace, path));
}
