import { type GatewayAccess, SluiceError } from "../../contract/index.ts";
import { HostFiles } from "../host/files/files.ts";
import { toHostNamespace } from "../host/files/paths.ts";
import {
  listSandboxes,
  makeRoot,
  resolveDirectory,
  SandboxFolder,
  toRecord,
  type SandboxRecord,
} from "../host/folder.ts";
import { Enclosure, toUnlimited } from "../host/processes/enclosure.ts";
import { buildEnvironment } from "../host/processes/environment.ts";
import { awaitCommand } from "../host/processes/exec.ts";
import { sendSignal } from "../host/processes/kill.ts";
import { LimitMark } from "../host/processes/members.ts";
import { HostProcesses } from "../host/processes.ts";
import { demandProgram, startProgram, toStdio } from "../host/start.ts";
import { HostTree } from "../host/tree.ts";
import { LocalGateway, toTieStreams } from "./gateway.ts";
import type {
  Detected,
  ExecOptions,
  ExecResult,
  HostProvider,
  HostSandbox,
  ListedSandbox,
  NetworkPolicy,
  SandboxClaim,
  SandboxPaths,
  SandboxProvider,
  SandboxSpec,
  SpawnedProcess,
} from "../port.ts";

export interface LocalProviderOptions {
  /** The parent folder of all sandboxes; made if it is missing. */
  readonly root: string;
}

/** Runs agents as plain processes of this user, without isolation. */
export function createLocalProvider(options: LocalProviderOptions): HostProvider {
  return new LocalProvider(options.root);
}

class LocalProvider implements HostProvider {
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
    await resolveDirectory(directory, [await makeRoot(this.#root)]);
  }

  /** Takes over an existing sandbox of this id, with its files. */
  async create(spec: SandboxSpec, claim?: SandboxClaim): Promise<HostSandbox> {
    refuseNetwork(spec.network);
    const root = await makeRoot(this.#root);
    const folder = await SandboxFolder.at(root, spec.id, claim);
    const directory = await resolveDirectory(spec.directory, [root]);
    const record: SandboxRecord = {
      ...toRecord(this.id, spec, directory),
      ...(await folder.since()),
      ...(await Enclosure.locate(folder.key, spec.limits)),
    };
    await folder.make(record);
    return new LocalSandbox(folder, record, root);
  }

  list(): Promise<ListedSandbox[]> {
    return listSandboxes(this.#root, this.id);
  }

  async connect(id: string, claim?: SandboxClaim): Promise<HostSandbox | undefined> {
    const root = await makeRoot(this.#root);
    const folder = await SandboxFolder.at(root, id, claim);
    const record = await folder.record();
    return record && new LocalSandbox(folder, await Enclosure.relocate(folder, record), root);
  }
}

/** Refuses every policy but the full network: a local process cannot be kept from a host. */
function refuseNetwork(network: NetworkPolicy | undefined): void {
  if (network === undefined || network.mode === "full") return;
  if (network.mode === "allow" && network.hosts.includes("*")) return;
  const detail =
    "A local sandbox cannot keep an agent from any host. Use bwrap or docker, or ask for the full network.";
  throw new SluiceError("capability_missing", detail, { network });
}

/** Only Linux finds a process that has left its group and its parent. On other systems a pause would miss it. */
const FINDS_ALL = process.platform === "linux";
const LOSES_SOME =
  "on this system a process that leaves its group and its parent is neither found nor ended, and nothing can be paused";

const MAY_HIDE =
  "a process that hides on purpose may outlive the sandbox: this host has no control group that we may use";

/** A sandbox of plain processes of the server's user. They have a folder of their own and end together, unisolated. */
class LocalSandbox implements HostSandbox {
  readonly id: string;
  readonly provider = "local";
  readonly isolated = false;
  readonly paths: SandboxPaths;
  readonly folders: SandboxPaths;
  readonly processes: HostProcesses;
  readonly tree: HostTree;
  readonly files: HostFiles;
  readonly shortcomings: readonly string[];
  readonly gateway: GatewayAccess;
  readonly pause?: () => Promise<void>;
  readonly resume?: () => Promise<void>;
  readonly #folder: SandboxFolder;
  readonly #record: SandboxRecord;
  readonly #enclosure: Enclosure;
  readonly #gateway: LocalGateway;

  constructor(folder: SandboxFolder, record: SandboxRecord, root: string) {
    this.id = record.id;
    this.paths = folder.paths(record.directory);
    this.folders = this.paths;
    this.processes = new HostProcesses(this, folder.spools);
    this.tree = new HostTree(this);
    const namespace = toHostNamespace(this.paths, { hidden: [root] });
    this.files = new HostFiles({ paths: this.paths, namespace });
    this.shortcomings = [
      ...toUnlimited(record).map(
        (name) => `the limit ${name} is not kept: this host has no control group for it that we may use`,
      ),
      ...(record.cgroup === undefined && FINDS_ALL ? [MAY_HIDE] : []),
      ...(FINDS_ALL ? [] : [LOSES_SOME]),
    ];
    this.#folder = folder;
    this.#record = record;
    const mark = record.cgroup === undefined ? LimitMark.of(folder.key) : undefined;
    this.#enclosure = new Enclosure(folder, record, mark);
    this.#gateway = new LocalGateway({ folder, id: record.id, enclosure: this.#enclosure });
    this.gateway = this.#gateway.access;
    if (!FINDS_ALL) return;
    this.pause = () => this.#enclosure.pause();
    this.resume = () => this.#enclosure.resume();
  }

  async spawn({ launch, wrapper, stdio }: SpawnedProcess): Promise<void> {
    const env = this.#environment(launch.env);
    await demandProgram(launch.argv[0] ?? "", env);
    this.#folder.makeParts(this.#record);
    await this.files.writeLaunchFiles(launch.files);
    const argv = [...wrapper, ...launch.argv];
    const tie = launch.gateway && (await this.#gateway.start(launch.gateway));
    try {
      const streams = [...toStdio(stdio), ...toTieStreams(tie)];
      await this.#enclosure.start(argv, { cwd: this.paths.workspace, env, stdio: streams });
    } finally {
      tie?.destroy();
    }
  }

  async signal(pid: number, signal: NodeJS.Signals): Promise<void> {
    const row = await this.#enclosure.members.demand(pid);
    if (row !== undefined) sendSignal(-row.group, signal);
  }

  killAll(): Promise<void> {
    return this.#enclosure.kill();
  }

  async exec(command: string, options: ExecOptions = {}): Promise<ExecResult> {
    options.signal?.throwIfAborted();
    this.#folder.makeParts(this.#record);
    const { workspace } = this.paths;
    const cwd = options.cwd === undefined ? workspace : (await this.files.locateWorkFolder(options.cwd)).host;
    const argv = [...(await this.#enclosure.prefix()), "/bin/sh", "-c", command];
    const child = await startProgram(argv, { cwd, env: this.#environment(options.env), stdio: "pipe" });
    return this.#enclosure.track(child, awaitCommand(child, options));
  }

  async host(port: number): Promise<URL> {
    return new URL(`http://127.0.0.1:${port}`);
  }

  verdict(): Promise<string | undefined> {
    return this.#enclosure.verdict();
  }

  async destroy(): Promise<void> {
    await this.killAll();
    await this.#folder.remove();
  }

  #environment(env: Readonly<Record<string, string>> | undefined): Record<string, string> {
    return buildEnvironment({
      id: this.id,
      key: this.#folder.key,
      home: this.paths.home,
      tmp: this.#folder.tmp,
      env: [this.#record.env, env],
    });
  }
}
