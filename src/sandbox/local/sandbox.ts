import { mkdir } from "node:fs/promises";
import { SluiceError, type Launch } from "../../contract/index.ts";
import type { ExecOptions, ExecResult, Sandbox, SandboxPaths } from "../port.ts";
import { Cgroup } from "../host/cgroup.ts";
import { toEnvironment } from "../host/environment.ts";
import { awaitCommand } from "../host/exec.ts";
import { HostFiles } from "../host/files.ts";
import type { SandboxFolder, SandboxRecord } from "../host/folder.ts";
import { killMembers, pauseMembers, resumeMembers, sendSignal } from "../host/kill.ts";
import { toMappedPath } from "../host/mapping.ts";
import { Members } from "../host/members.ts";
import { readProcess } from "../host/procfs.ts";
import { removeTree } from "../host/removeTree.ts";
import { demandProgram, startProgram } from "../host/start.ts";

/** Processes of the user that the server runs as, in a folder of their own. They are kept together, not kept apart. */
export class LocalSandbox implements Sandbox {
  readonly id: string;
  readonly provider = "local";
  readonly isolated = false;
  readonly paths: SandboxPaths;
  readonly folders: SandboxPaths;
  readonly files: HostFiles;
  readonly #folder: SandboxFolder;
  readonly #record: SandboxRecord;
  readonly #cgroup: Cgroup | undefined;
  readonly #members: Members;

  constructor(folder: SandboxFolder, record: SandboxRecord, root: string) {
    this.id = record.id;
    this.paths = folder.paths(record.directory);
    this.folders = this.paths;
    this.files = new HostFiles(this.paths, [root]);
    this.#folder = folder;
    this.#record = record;
    this.#cgroup = record.cgroup === undefined ? undefined : new Cgroup(record.cgroup);
    this.#members = new Members({ folder: folder.path, key: folder.key, cgroup: this.#cgroup });
  }

  async spawn(process: { launch: Launch; wrapper: readonly string[] }): Promise<void> {
    const { launch, wrapper } = process;
    const env = this.#environment(launch.env);
    await demandProgram(launch.argv[0] ?? "", env);
    await this.#makePrivate();
    for (const { path, content, mode = 0o600 } of launch.files ?? []) {
      await this.files.write(path, content, { mode, base: this.paths.home });
    }
    const argv = [...(await this.#prefix()), ...wrapper, ...launch.argv];
    const child = await startProgram(argv, { cwd: this.paths.workspace, env, stdio: "ignore" });
    child.unref();
    await this.#members.add(child.pid as number);
  }

  async signal(pid: number, signal: NodeJS.Signals): Promise<void> {
    const row = await readProcess(pid);
    if (row === undefined && process.platform === "linux") return;
    if (!(await this.#members.has(pid))) {
      const detail = `The process ${pid} does not belong to this sandbox, so it gets no signal from it.`;
      throw new SluiceError("permission_denied", detail, { pid });
    }
    sendSignal(-(row?.group ?? pid), signal);
  }

  killAll(): Promise<void> {
    return killMembers(this.#members, this.#cgroup);
  }

  async exec(command: string, options: ExecOptions = {}): Promise<ExecResult> {
    options.signal?.throwIfAborted();
    await this.#makePrivate();
    const { workspace } = this.paths;
    const cwd = options.cwd === undefined ? workspace : toMappedPath(options.cwd, this.paths, workspace).host;
    const argv = [...(await this.#prefix()), "/bin/sh", "-c", command];
    const child = await startProgram(argv, { cwd, env: this.#environment(options.env), stdio: "pipe" });
    const result = awaitCommand(child, options);
    await this.#members.add(child.pid as number).catch(() => {});
    return result;
  }

  async host(port: number): Promise<URL> {
    return new URL(`http://127.0.0.1:${port}`);
  }

  pause(): Promise<void> {
    return pauseMembers(this.#members, this.#cgroup);
  }

  resume(): Promise<void> {
    return resumeMembers(this.#members, this.#cgroup);
  }

  async destroy(): Promise<void> {
    await this.killAll();
    await removeTree(this.#folder.path);
  }

  #environment(env: Readonly<Record<string, string>> | undefined): Record<string, string> {
    return toEnvironment({
      id: this.id,
      key: this.#folder.key,
      home: this.paths.home,
      tmp: this.#folder.tmp,
      env: [this.#record.env, env],
    });
  }

  async #prefix(): Promise<readonly string[]> {
    return this.#cgroup !== undefined && (await this.#cgroup.make()) ? this.#cgroup.prefix : [];
  }

  /** An agent may have removed them. */
  async #makePrivate(): Promise<void> {
    const own = this.#record.directory === undefined ? [this.paths.workspace] : [];
    for (const path of [...own, this.paths.home, this.paths.uploads, this.#folder.tmp]) {
      await mkdir(path, { recursive: true, mode: 0o700 });
    }
  }
}
