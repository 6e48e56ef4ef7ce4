import { mkdir } from "node:fs/promises";
import { HostFiles } from "../host/files/files.ts";
import { toHostNamespace } from "../host/files/paths.ts";
import type { SandboxFolder, SandboxRecord } from "../host/folder.ts";
import { Enclosure, toUnlimited } from "../host/processes/enclosure.ts";
import { buildEnvironment } from "../host/processes/environment.ts";
import { awaitCommand } from "../host/processes/exec.ts";
import { sendSignal } from "../host/processes/kill.ts";
import { LimitMark } from "../host/processes/limit-mark.ts";
import { demandProgram, startProgram, toStdio } from "../host/start.ts";
import type { ExecOptions, ExecResult, Sandbox, SandboxPaths, SpawnedProcess } from "../port.ts";

/** Only Linux finds a process that has left its group and its parent. On other systems a pause would miss it. */
const FINDS_ALL = process.platform === "linux";
const LOSES_SOME =
  "on this system a process that leaves its group and its parent is neither found nor ended, and nothing can be paused";

const MAY_HIDE =
  "a process that hides on purpose may outlive the sandbox: this host has no control group that we may use";

/** A sandbox of plain processes of the server's user. They have a folder of their own and end together, unisolated. */
export class LocalSandbox implements Sandbox {
  readonly id: string;
  readonly provider = "local";
  readonly isolated = false;
  readonly paths: SandboxPaths;
  readonly folders: SandboxPaths;
  readonly files: HostFiles;
  readonly shortcomings: readonly string[];
  readonly pause?: () => Promise<void>;
  readonly resume?: () => Promise<void>;
  readonly #folder: SandboxFolder;
  readonly #record: SandboxRecord;
  readonly #enclosure: Enclosure;

  constructor(folder: SandboxFolder, record: SandboxRecord, root: string) {
    this.id = record.id;
    this.paths = folder.paths(record.directory);
    this.folders = this.paths;
    this.files = new HostFiles({
      paths: this.paths,
      namespace: toHostNamespace(this.paths, { hidden: [root] }),
    });
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
    if (!FINDS_ALL) return;
    this.pause = () => this.#enclosure.pause();
    this.resume = () => this.#enclosure.resume();
  }

  async spawn({ launch, wrapper, stdio }: SpawnedProcess): Promise<void> {
    const env = this.#environment(launch.env);
    await demandProgram(launch.argv[0] ?? "", env);
    await this.#makeFolders();
    for (const { path, content, mode = 0o600 } of launch.files ?? []) {
      await this.files.write(path, content, { mode, base: this.paths.home });
    }
    const argv = [...(await this.#enclosure.prefix()), ...wrapper, ...launch.argv];
    const child = await startProgram(argv, { cwd: this.paths.workspace, env, stdio: toStdio(stdio) });
    child.unref();
    await this.#enclosure.members.add(child.pid as number);
  }

  async signal(pid: number, signal: NodeJS.Signals): Promise<void> {
    const row = await this.#enclosure.members.demand(pid);
    if (row === undefined) return;
    sendSignal(-row.group, signal);
  }

  killAll(): Promise<void> {
    return this.#enclosure.kill();
  }

  async exec(command: string, options: ExecOptions = {}): Promise<ExecResult> {
    options.signal?.throwIfAborted();
    await this.#makeFolders();
    const { workspace } = this.paths;
    const cwd = options.cwd === undefined ? workspace : await this.files.locateWorkFolder(options.cwd);
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

  /** Makes the sandbox's folders again where they are missing: an agent may have removed them. */
  async #makeFolders(): Promise<void> {
    await mkdir(this.#folder.path, { recursive: true, mode: 0o700 });
    this.#folder.makeParts(this.#record);
  }
}
