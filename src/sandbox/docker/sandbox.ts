import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { BridgeStart } from "../bridge/bridge.ts";
import { Controllers } from "../host/controllers.ts";
import { DiskGuard } from "../host/diskGuard.ts";
import { Enclosure, toGuarded } from "../host/enclosure.ts";
import { KEY_MARKER, MARKER } from "../host/environment.ts";
import { refuseExposed } from "../host/exposed.ts";
import { HostFiles } from "../host/files.ts";
import { isInside, PINNED, toMappedPath } from "../host/mapping.ts";
import { toMountedNamespace } from "../host/namespace.ts";
import type { Owner } from "../host/owner.ts";
import { removeEmptyFolder } from "../host/removeTree.ts";
import { startProgram, toStdio } from "../host/start.ts";
import type { ExecOptions, ExecResult, Sandbox, SandboxPaths, SpawnedProcess } from "../port.ts";
import { Container } from "./container.ts";
import type { ExecSpec } from "./exec/api.ts";
import { signalGroup } from "./exec/ask.ts";
import { runCommand } from "./exec/command.ts";
import type { LaunchOrder } from "./exec/launch.ts";
import { toAgentArgv } from "./exec/shim.ts";
import { hostNode, Image } from "./image.ts";
import { findControllers } from "./limits.ts";
import { ContainerNetwork } from "./network.ts";
import { isSeparate, toContainerOptions, toContainerUser, type PlanSources } from "./plan.ts";
import { NOTHING } from "./requirements.ts";
import { Spawned, type AgentExec } from "./spawned.ts";

/** A container around host folders. It comes and goes as it is needed; the folders stay. */
export class DockerSandbox implements Sandbox {
  readonly id: string;
  readonly provider = "docker";
  readonly isolated = true;
  readonly paths: SandboxPaths = PINNED;
  readonly folders: SandboxPaths;
  readonly owner?: Owner;
  readonly lends: boolean;
  readonly shortcomings: readonly string[];
  readonly files: HostFiles;
  readonly #sources: PlanSources;
  readonly #container: Container;
  readonly #spawned: Spawned;
  /** Of what belongs to the sandbox on this side. */
  readonly #outside: Enclosure;
  readonly #disk: DiskGuard | undefined;
  readonly #network: ContainerNetwork;
  #verdict: string | undefined;

  constructor(sources: PlanSources) {
    const { folder, record, engine } = sources;
    this.id = record.id;
    this.folders = folder.paths(record.directory);
    if (record.owner !== undefined) this.owner = record.owner;
    const host = { ...this.folders, tmp: folder.tmp };
    const namespace = toMountedNamespace(host, { hidden: sources.hide, owner: record.owner });
    this.files = new HostFiles({ paths: PINNED, host, namespace });
    this.#sources = sources;
    this.#container = new Container(engine, {
      name: `sluice-${folder.key}`,
      plan: (requirements) => toContainerOptions(sources, requirements),
      onStarted: (id, { hosts }) => this.#network.onStarted(id, hosts),
    });
    this.#spawned = new Spawned({
      folder: join(folder.path, "processes"),
      address: engine.address,
      program: sources.programs.exec,
    });
    const { limits: _inside, ...outside } = record;
    this.#outside = new Enclosure(folder, outside);
    this.#disk = this.#guardDisk();
    this.#network = new ContainerNetwork({
      sources,
      startOutside: (start) => this.#startOutside(start),
      place: (container, env) => this.#place(container, env, {}),
    });
    this.lends = this.#network.lends;
    this.shortcomings = [...record.shortcomings, ...this.#network.shortcomings];
  }

  async spawn({ launch, wrapper, stdio }: SpawnedProcess): Promise<void> {
    for (const { path, content, mode = 0o600 } of launch.files ?? []) {
      await this.files.write(path, content, { mode, base: PINNED.home });
    }
    const needs = [...(await this.#toMissing(launch.needs)), ...this.#network.lend(launch.lending)];
    const required = { needs, hosts: launch.hosts ?? [] };
    const { id, requirements } = await this.#container.ensure(required);
    this.#disk?.begin();
    await this.#network.open(requirements.hosts);
    const env = this.#network.env(requirements.hosts);
    const exec = await this.#toAgentExec(await this.#place(id, env, launch.env), launch.argv);
    const before = [...(await this.#outside.prefix()), ...wrapper];
    await this.#outside.members.add(
      await this.#spawned.start(exec, { before, env: this.#markers(), stdio: toStdio(stdio) }),
    );
  }

  async signal(pid: number, signal: NodeJS.Signals): Promise<void> {
    if ((await this.#outside.members.demand(pid)) === undefined) return;
    const inside = await this.#spawned.inside(pid);
    if (inside === undefined) return;
    const running = await this.#container.running();
    if (running === undefined) return;
    const place = await this.#place(running.id, {}, {});
    const done = await signalGroup(this.#address, place, { pid: inside, signal });
    // No room for another process: then there is one way left to end it.
    if (!done && signal === "SIGKILL") await this.#endContainer();
  }

  async killAll(): Promise<void> {
    this.#disk?.rest();
    // First who could still start something inside.
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
    const cwd = await this.#toFolder(options.cwd);
    const { id, requirements } = await this.#container.ensure(NOTHING);
    this.#disk?.begin();
    const place = await this.#place(id, this.#network.env(requirements.hosts), options.env);
    const onStuck = (): void => void this.#endContainer().catch(() => {});
    return runCommand(this.#address, { ...place, cwd }, command, { ...options, onStuck });
  }

  async host(port: number): Promise<URL> {
    const { id, requirements } = await this.#container.ensure(NOTHING);
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
    // Ours, unless somebody has put something there.
    if (this.#sources.record.madeOutputs) await removeEmptyFolder(this.folders.outputs).catch(() => {});
    await this.#sources.folder.remove();
  }

  /** Ends what runs and removes the container, but none of the files. */
  async discard(): Promise<void> {
    await this.killAll();
    await this.#container.remove();
  }

  get #address(): PlanSources["engine"]["address"] {
    return this.#sources.engine.address;
  }

  /** Where a command runs in the container, as whom, and with which variables. */
  async #place(
    container: string,
    network: Readonly<Record<string, string>>,
    env: Readonly<Record<string, string>> | undefined,
  ): Promise<Omit<ExecSpec, "argv">> {
    const { record, engine } = this.#sources;
    const image = await Image.find(engine, record.image);
    return {
      container,
      cwd: PINNED.workspace,
      user: toContainerUser(await engine.facts(), record.owner),
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
        [MARKER]: this.id,
      },
    };
  }

  /** By a root that stands between the engine and the agent, where the agent is somebody else than root. */
  async #toAgentExec(place: Omit<ExecSpec, "argv">, words: readonly string[]): Promise<AgentExec> {
    const [program = ""] = words;
    const argv = toAgentArgv(words, place.cwd);
    if (!isSeparate(place.user)) return { spec: { ...place, cwd: "/", argv }, program };
    const { engine, record, programs } = this.#sources;
    const image = await Image.find(engine, record.image);
    const node = (await image.node()) ?? hostNode();
    const launcher = [node, "--input-type=module", "-e", await readFile(programs.launch, "utf8")];
    const [uid, gid] = place.user.split(":").map(Number) as [number, number];
    const order: LaunchOrder = { argv, env: place.env, uid, gid };
    const env = { PATH: image.path, [MARKER]: this.id };
    const spec = { container: place.container, user: "0:0", cwd: "/", env, argv: launcher };
    return { spec, order: `${JSON.stringify(order)}\n`, program };
  }

  async #toFolder(cwd: string | undefined): Promise<string> {
    if (cwd === undefined) return PINNED.workspace;
    const { said } = toMappedPath(cwd, PINNED, PINNED.workspace, this.folders);
    await this.files.locateWorkFolder(cwd);
    return said;
  }

  /** What neither the image nor any mount brings. */
  async #toMissing(needs: readonly string[] = []): Promise<string[]> {
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

  async #startOutside(start: BridgeStart): Promise<void> {
    const argv = [...(await this.#outside.prefix()), ...start.argv];
    const env = { ...this.#markers(), ...start.env };
    const child = await startProgram(argv, { cwd: start.cwd, env, stdio: "ignore" });
    child.unref();
    await this.#outside.members.add(child.pid as number);
  }

  /** All that a program on this host's side is told: of the session's variables nothing. */
  #markers(): Record<string, string> {
    const path = process.env["PATH"] ?? "/usr/local/bin:/usr/bin:/bin";
    return { PATH: path, [MARKER]: this.id, [KEY_MARKER]: this.#sources.folder.key };
  }

  /** With the container goes what its limits have counted. */
  async #endContainer(): Promise<void> {
    this.#verdict = await this.verdict();
    await this.#container.kill();
  }

  #guardDisk(): DiskGuard | undefined {
    const { folder, record } = this.#sources;
    const { diskBytes } = record.limits;
    if (diskBytes === undefined) return undefined;
    const guard = new DiskGuard(toGuarded(folder, record), diskBytes, {
      isNeeded: async () => (await this.#container.running()) !== undefined,
      members: () => this.#outside.members.find(),
      freeze: async () => {
        await this.pause();
        return () => this.resume();
      },
      onExceeded: async (verdict) => {
        await this.killAll();
        this.#verdict = verdict;
      },
    });
    guard.watch();
    return guard;
  }
}
