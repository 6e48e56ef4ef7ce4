import { SluiceError, type GatewayAccess, type Launch } from "../../contract/index.ts";
import { keepGateway, toGatewayAccess } from "../egress/gateway.ts";
import { HostFiles } from "../host/files/files.ts";
import { PINNED, toMountedNamespace } from "../host/files/paths.ts";
import { removeEmptyFolder } from "../host/files/remove-tree.ts";
import type { SandboxFolder, SandboxRecord } from "../host/folder.ts";
import { Enclosure, toUnlimited } from "../host/processes/enclosure.ts";
import { awaitCommand } from "../host/processes/exec.ts";
import { endTree, sendSignal } from "../host/processes/kill.ts";
import { listDescendants, readProcesses, readProcFile, type ProcessRow } from "../host/processes/procfs.ts";
import { HostProcesses } from "../host/processes.ts";
import { demandProgram, toStdio } from "../host/start.ts";
import type {
  ExecOptions,
  ExecResult,
  HostSandbox,
  Owner,
  SandboxPaths,
  SandboxTree,
  SpawnedProcess,
} from "../port.ts";
import type { BwrapContext } from "./arguments.ts";
import { Launcher } from "./launcher.ts";
import { Network } from "./network.ts";
import { toSeccompFilter } from "./seccomp.ts";
import { findInnerPath } from "./system.ts";

const OUTPUTS = `${PINNED.workspace}/output`;

/** A sandbox whose processes have namespaces of their own and see only listed parts of this host. */
export class BwrapSandbox implements HostSandbox {
  readonly id: string;
  readonly provider = "bwrap";
  readonly isolated = true;
  readonly paths: SandboxPaths = PINNED;
  readonly folders: SandboxPaths;
  readonly processes: HostProcesses;
  /** Set by the provider: the tree needs git, which runs in a bwrap of its own. */
  tree?: SandboxTree;
  readonly owner?: Owner;
  readonly lends: boolean;
  readonly gateway: GatewayAccess | undefined;
  readonly files: HostFiles;
  readonly shortcomings: readonly string[];
  readonly #folder: SandboxFolder;
  readonly #record: SandboxRecord;
  readonly #enclosure: Enclosure;
  readonly #launcher: Launcher;
  readonly #network: Network;

  constructor(folder: SandboxFolder, record: SandboxRecord, context: BwrapContext) {
    this.id = record.id;
    this.folders = folder.paths(record.directory);
    if (record.owner !== undefined) this.owner = record.owner;
    this.processes = new HostProcesses(this, folder.spools);
    const host = { ...this.folders, tmp: folder.tmp };
    const namespace = toMountedNamespace(host, { hidden: context.hide, owner: record.owner });
    this.files = new HostFiles({ paths: PINNED, host, namespace });
    this.#folder = folder;
    this.#record = record;
    this.#enclosure = new Enclosure(folder, record);
    this.#launcher = new Launcher({ folder, record, context, enclosure: this.#enclosure });
    this.#network = new Network({
      folder: folder.path,
      policy: record.network ?? { mode: "allow", hosts: [] },
      owner: record.owner,
      programs: context.programs,
      scope: context.scope,
      launcher: this.#launcher,
    });
    this.lends = this.#network.lends;
    this.gateway = this.#network.leads ? toGatewayAccess(folder.path) : undefined;
    this.shortcomings = [...toShortcomings(record), ...this.#network.shortcomings];
  }

  async spawn({ launch, wrapper, stdio }: SpawnedProcess): Promise<void> {
    await this.#makeFolders();
    await this.#demandProgram(launch);
    await this.files.writeLaunchFiles(launch.files);
    this.#network.lend(launch.lending);
    if (launch.gateway !== undefined) keepGateway(this.#folder.path, launch.gateway);
    const { argv, env, needs } = launch;
    const options = { cwd: PINNED.workspace, stdio: toStdio(stdio), wrapper, env, needs };
    await this.#network.use(launch.hosts ?? [], async (entry) => {
      const child = await this.#launcher.start(argv, { ...options, entry });
      child.unref();
      await this.#enclosure.members.add(child.pid as number);
    });
  }

  async signal(pid: number, signal: NodeJS.Signals): Promise<void> {
    const row = await this.#enclosure.members.demand(pid);
    if (row === undefined) return;
    const main = await findMain(pid);
    // The whole process group, as a terminal does. Before the agent has one, the signal goes to the wrapper's.
    sendSignal(-(main?.group ?? row.group), signal);
  }

  killAll(): Promise<void> {
    return this.#enclosure.kill();
  }

  verdict(): Promise<string | undefined> {
    return this.#enclosure.verdict();
  }

  async exec(command: string, options: ExecOptions = {}): Promise<ExecResult> {
    options.signal?.throwIfAborted();
    await this.#makeFolders();
    const { inside: cwd } = await this.files.locateWorkFolder(options.cwd ?? PINNED.workspace);
    return this.#network.use([], async (entry) => {
      const stdio = ["pipe", "pipe", "pipe"] as const;
      const argv = ["/bin/sh", "-c", command];
      const child = await this.#launcher.start(argv, { cwd, stdio, entry, env: options.env });
      return this.#enclosure.track(child, awaitCommand(child, options, endTree));
    });
  }

  async host(port: number): Promise<URL> {
    await this.#makeFolders();
    return this.#network.openPort(port);
  }

  pause(): Promise<void> {
    return this.#enclosure.pause();
  }

  resume(): Promise<void> {
    return this.#enclosure.resume();
  }

  release(): Promise<void> {
    return this.#network.close();
  }

  async destroy(): Promise<void> {
    await this.#network.close();
    await this.killAll();
    if (this.#record.madeOutputs) await removeEmptyFolder(this.folders.outputs).catch(() => {});
    await this.#folder.remove();
  }

  /** Makes the sandbox's folders again where they are missing: an agent may have removed them. */
  async #makeFolders(): Promise<void> {
    await this.#launcher.makeFolders();
    const outputs = await this.files.stat(OUTPUTS).catch(() => undefined);
    if (outputs === undefined) await this.files.mkdir(OUTPUTS);
  }

  async #demandProgram({ argv: [program = ""], env, needs = [] }: Launch): Promise<void> {
    const path = env["PATH"] ?? this.#record.env?.["PATH"] ?? (await findInnerPath(needs));
    await demandProgram(this.#launcher.toHostPath(program), { PATH: path });
    if (!program.includes("/") || this.#launcher.isVisible(program, needs)) return;
    const detail = `The program ${program} is not visible in the sandbox. Install it below /usr, or list it among the needs of its launch.`;
    throw new SluiceError("agent_not_installed", detail, { program });
  }
}

/** The agent's process below its wrapper: the one with pid 2 in the sandbox's pid namespace, where bwrap is pid 1. */
async function findMain(wrapper: number): Promise<ProcessRow | undefined> {
  const rows = await readProcesses();
  for (const pid of listDescendants([wrapper], rows)) {
    const status = (await readProcFile(`/proc/${pid}/status`)) ?? "";
    const numbers = /^NSpid:\s*(.*)$/m.exec(status)?.[1]?.split(/\s+/) ?? [];
    if (numbers.length > 1 && numbers.at(-1) === "2") return rows.find((row) => row.pid === pid);
  }
  return undefined;
}

function toShortcomings(record: SandboxRecord): string[] {
  const words = {
    memoryBytes: "the limit of memory is kept for each process and not for all together",
    processes: "the limit of processes is kept by an rlimit alone",
    cpus: "the limit of processor time is not kept",
    diskBytes: "the limit of the disk is not kept",
  };
  const unlimited = toUnlimited(record).map(
    (name) => `${words[name]}: this host has no control group for it that we may use`,
  );
  if (toSeccompFilter() !== undefined) return unlimited;
  return [...unlimited, `no filter of system calls: there is none for ${process.arch}`];
}
