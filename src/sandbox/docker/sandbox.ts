import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { GatewayAccess } from "../../contract/index.ts";
import type { EgressHostStart } from "../egress/egress.ts";
import { keepGateway, toGatewayAccess } from "../egress/gateway.ts";
import { DiskLimit } from "../host/disk-limit.ts";
import { HostFiles } from "../host/files/files.ts";
import { isInside, PINNED, toMountedNamespace } from "../host/files/paths.ts";
import { removeEmptyFolder } from "../host/files/remove-tree.ts";
import { Controllers } from "../host/processes/controllers.ts";
import { Enclosure, toLimitedFolders } from "../host/processes/enclosure.ts";
import { ID_VARIABLE, KEY_VARIABLE } from "../host/processes/environment.ts";
import { HostProcesses } from "../host/processes.ts";
import { refuseExposed, toStdio } from "../host/start.ts";
import { HostTree } from "../host/tree.ts";
import type { ExecOptions, ExecResult, HostSandbox, Owner, SandboxPaths, SpawnedProcess } from "../port.ts";
import { Container, NO_REQUIREMENTS } from "./container.ts";
import { findControllers } from "./engine.ts";
import type { ExecTarget } from "./exec/api.ts";
import { runCommand, signalGroup, toAgentArgv } from "./exec/command.ts";
import type { LaunchOrder } from "./exec/launch.ts";
import { hostNode, Image } from "./image.ts";
import { ContainerNetwork } from "./network.ts";
import { findContainerUser, isSeparate, planContainer, type PlanSources } from "./plan.ts";
import { Spawned, type AgentExec } from "./spawned.ts";

/** A container with folders of the host. It is made when it is needed and may be replaced; the folders stay. */
export class DockerSandbox implements HostSandbox {
  readonly id: string;
  readonly provider = "docker";
  readonly isolated = true;
  readonly paths: SandboxPaths = PINNED;
  readonly folders: SandboxPaths;
  readonly processes: HostProcesses;
  readonly tree: HostTree;
  readonly owner?: Owner;
  readonly lends: boolean;
  readonly gateway: GatewayAccess | undefined;
  readonly shortcomings: readonly string[];
  readonly files: HostFiles;
  readonly #sources: PlanSources;
  readonly #container: Container;
  readonly #spawned: Spawned;
  /** The sandbox's processes on this host. */
  readonly #outside: Enclosure;
  readonly #disk: DiskLimit | undefined;
  readonly #network: ContainerNetwork;
  #verdict: string | undefined;

  constructor(sources: PlanSources) {
    const { folder, record, engine } = sources;
    this.id = record.id;
    this.folders = folder.paths(record.directory);
    if (record.owner !== undefined) this.owner = record.owner;
    this.processes = new HostProcesses(this, folder.spools);
    this.tree = new HostTree(this);
    const host = { ...this.folders, tmp: folder.tmp };
    const namespace = toMountedNamespace(host, { hidden: sources.hide, owner: record.owner });
    this.files = new HostFiles({ paths: PINNED, host, namespace });
    this.#sources = sources;
    this.#container = new Container(engine, {
      name: `sluice-${folder.key}`,
      plan: (requirements) => planContainer(sources, requirements),
      onStarted: (id, { hosts }) => this.#network.onStarted(id, hosts),
    });
    this.#spawned = new Spawned({
      folder: join(folder.path, "processes"),
      address: engine.address,
      program: sources.programs.exec,
    });
    const { limits: _inside, ...outside } = record;
    this.#outside = new Enclosure(folder, outside);
    this.#disk = this.#limitDisk();
    this.#network = new ContainerNetwork({
      sources,
      startOutside: (start) => this.#startOutside(start),
      target: (container, env) => this.#target(container, env, {}),
    });
    this.lends = this.#network.lends;
    this.gateway = this.#network.leads ? toGatewayAccess(folder.path) : undefined;
    this.shortcomings = [...record.shortcomings, ...this.#network.shortcomings];
  }

  async spawn({ launch, wrapper, stdio }: SpawnedProcess): Promise<void> {
    await this.files.writeLaunchFiles(launch.files);
    if (launch.gateway !== undefined) keepGateway(this.#sources.folder.path, launch.gateway);
    const needs = [...(await this.#findMissing(launch.needs)), ...this.#network.lend(launch.lending)];
    const required = { needs, hosts: launch.hosts ?? [] };
    const { id, requirements } = await this.#container.ensure(required);
    this.#disk?.begin();
    await this.#network.open(requirements.hosts);
    const env = this.#network.env(requirements.hosts);
    const exec = await this.#buildAgentExec(await this.#target(id, env, launch.env), launch.argv);
    const before = [...(await this.#outside.prefix()), ...wrapper];
    await this.#outside.members.add(
      await this.#spawned.start(exec, { before, env: this.#outsideEnv(), stdio: toStdio(stdio) }),
    );
  }

  async signal(pid: number, signal: NodeJS.Signals): Promise<void> {
    if ((await this.#outside.members.demand(pid)) === undefined) return;
    const inside = await this.#spawned.inside(pid);
    if (inside === undefined) return;
    const running = await this.#container.running();
    if (running === undefined) return;
    const target = await this.#target(running.id, {}, {});
    const done = await signalGroup(this.#address, target, { pid: inside, signal });
    // A container at its limit of processes cannot run `kill`, so it is killed as a whole.
    if (!done && signal === "SIGKILL") await this.#endContainer();
  }

  async killAll(): Promise<void> {
    this.#disk?.unwatch();
    // The processes on this host end first: they could start further ones in the container.
    await this.#outside.kill();
    await this.#endContainer();
    await this.#spawned.forget();
  }

  async verdict(): Promise<string | undefined> {
    const running = await this.#container.running();
    if (running === undefined) return this.#verdict;
    const paths = await findControllers(running.pid);
    return (await new Controllers(paths, this.#sources.record.limits).verdict()) ?? this.#verdict;
  }

  async exec(command: string, options: ExecOptions = {}): Promise<ExecResult> {
    options.signal?.throwIfAborted();
    const cwd =
      options.cwd === undefined ? PINNED.workspace : (await this.files.locateWorkFolder(options.cwd)).inside;
    const { id, requirements } = await this.#container.ensure(NO_REQUIREMENTS);
    this.#disk?.begin();
    const target = await this.#target(id, this.#network.env(requirements.hosts), options.env);
    const onStuck = (): void => void this.#endContainer().catch(() => {});
    return runCommand(this.#address, { ...target, cwd }, command, { ...options, onStuck });
  }

  async host(port: number): Promise<URL> {
    const { id, requirements } = await this.#container.ensure(NO_REQUIREMENTS);
    const running = await this.#container.processes(id);
    return this.#network.openPort(port, { container: id, hosts: requirements.hosts, running });
  }

  pause(): Promise<void> {
    return this.#container.pause();
  }

  resume(): Promise<void> {
    return this.#container.resume();
  }

  release(): Promise<void> {
    return this.#network.close();
  }

  async destroy(): Promise<void> {
    await this.#network.close();
    await this.discard();
    // The sandbox made this folder. It stays if it has content.
    if (this.#sources.record.madeOutputs) await removeEmptyFolder(this.folders.outputs).catch(() => {});
    await this.#sources.folder.remove();
  }

  /** Ends all processes and removes the container, but none of the files. */
  async discard(): Promise<void> {
    await this.killAll();
    await this.#container.remove();
  }

  get #address(): PlanSources["engine"]["address"] {
    return this.#sources.engine.address;
  }

  /** The container, user, folder and variables of a command. */
  async #target(
    container: string,
    network: Readonly<Record<string, string>>,
    env: Readonly<Record<string, string>> | undefined,
  ): Promise<ExecTarget> {
    const { record, engine } = this.#sources;
    const image = await Image.find(engine, record.image);
    return {
      container,
      cwd: PINNED.workspace,
      user: findContainerUser(await engine.facts(), record.owner),
      env: {
        PATH: image.path,
        LANG: "C.UTF-8",
        HOME: PINNED.home,
        TMPDIR: "/tmp",
        TERM: "dumb",
        USER: "user",
        ...network,
        ...record.env,
        ...env,
        [ID_VARIABLE]: this.id,
      },
    };
  }

  /** The start of an agent. An agent that is not root is started through a process of root. */
  async #buildAgentExec(target: ExecTarget, command: readonly string[]): Promise<AgentExec> {
    const [program = ""] = command;
    const argv = toAgentArgv(command, target.cwd);
    if (!isSeparate(target.user)) return { spec: { ...target, cwd: "/", argv }, program };
    const { engine, record, programs } = this.#sources;
    const image = await Image.find(engine, record.image);
    const node = (await image.node()) ?? hostNode();
    const launcher = [node, "--input-type=module", "-e", await readFile(programs.launch, "utf8")];
    const [uid, gid] = target.user.split(":").map(Number) as [number, number];
    const order: LaunchOrder = { argv, env: target.env, uid, gid };
    const env = { PATH: image.path, [ID_VARIABLE]: this.id };
    const spec = { container: target.container, user: "0:0", cwd: "/", env, argv: launcher };
    return { spec, order: `${JSON.stringify(order)}\n`, program };
  }

  /** The needed paths that neither the image nor any mount has. */
  async #findMissing(needs: readonly string[] = []): Promise<string[]> {
    const { engine, record, mounts, hide } = this.#sources;
    refuseExposed(needs, hide);
    const image = await Image.find(engine, record.image);
    const having = await image.having(needs);
    const hasNode = (await image.node()) !== undefined;
    return needs.filter((need) => {
      const isNode = hasNode && need === process.execPath;
      return !having.has(need) && !isNode && !mounts.some((mount) => isInside(need, mount));
    });
  }

  async #startOutside(start: EgressHostStart): Promise<void> {
    const env = { ...this.#outsideEnv(), ...start.env };
    await this.#outside.start(start.argv, { cwd: start.cwd, env, stdio: "ignore" });
  }

  /** The environment of a program on this host. It has none of the session's variables. */
  #outsideEnv(): Record<string, string> {
    const path = process.env["PATH"] ?? "/usr/local/bin:/usr/bin:/bin";
    return { PATH: path, [ID_VARIABLE]: this.id, [KEY_VARIABLE]: this.#sources.folder.key };
  }

  /** Kills the container, after reading its verdict: the counters of its limits end with it. */
  async #endContainer(): Promise<void> {
    this.#verdict = await this.verdict();
    await this.#container.kill();
  }

  #limitDisk(): DiskLimit | undefined {
    const { folder, record } = this.#sources;
    const { diskBytes } = record.limits;
    if (diskBytes === undefined) return undefined;
    const limit = new DiskLimit(toLimitedFolders(folder, record), diskBytes, {
      isNeeded: async () => (await this.#container.running()) !== undefined,
      members: () => this.#outside.members.find(),
      freeze: async () => {
        await this.pause();
        return () => this.resume();
      },
      onExceeded: async (verdict) => {
        // Before the end: the report of the end asks for it.
        this.#verdict = verdict;
        await this.killAll();
        this.#verdict = verdict;
      },
    });
    limit.watch();
    return limit;
  }
}
