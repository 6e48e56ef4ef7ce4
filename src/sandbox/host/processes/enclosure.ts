import { execFile, type ChildProcess } from "node:child_process";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { SluiceError } from "../../../contract/index.ts";
import { access, readFile, rm, writeFile } from "../../../disk/sync-files.ts";
import type { SandboxLimits } from "../../port.ts";
import { DiskLimit, type LimitedFolders } from "../disk-limit.ts";
import { succeeds } from "../files/open-file.ts";
import type { SandboxFolder, SandboxRecord } from "../folder.ts";
import { startProgram, type StartOptions } from "../start.ts";
import { CANNOT_JOIN, Cgroup, toGroupPrefix } from "./cgroup.ts";
import { Controllers, type ControllerPaths } from "./controllers.ts";
import { freezeMembers, killMembers, pauseMembers, resumeMembers } from "./kill.ts";
import { Members, type LimitMark } from "./members.ts";

const run = promisify(execFile);

/** All processes of one sandbox: starts them in its control groups, limits, pauses and ends them. */
export class Enclosure {
  readonly members: Members;
  readonly #cgroup: Cgroup | undefined;
  readonly #controllers: Controllers;
  readonly #markPrefix: readonly string[];
  readonly #disk: DiskLimit | undefined;
  /** Stores the limit that the sandbox was ended for. */
  readonly #verdictFile: string;
  #ending: Promise<void> = Promise.resolve();
  #prefix: readonly string[] | undefined;
  #prefixing: Promise<readonly string[]> | undefined;

  /** `mark` finds the members of a sandbox without a control group. */
  constructor(folder: SandboxFolder, record: SandboxRecord, mark?: LimitMark) {
    this.#verdictFile = join(folder.path, "verdict");
    this.#cgroup = record.cgroup === undefined ? undefined : new Cgroup(record.cgroup);
    this.#controllers = new Controllers(record.controllers ?? {}, record.limits ?? {});
    const { since } = record;
    this.members = new Members({ folder: folder.path, key: folder.key, cgroup: this.#cgroup, mark, since });
    this.#markPrefix = mark?.prefix ?? [];
    const { diskBytes } = record.limits ?? {};
    if (diskBytes === undefined) return;
    this.#disk = new DiskLimit(toLimitedFolders(folder, record), diskBytes, {
      isNeeded: () => this.members.any(),
      members: async () => this.#cgroup?.members() ?? (await this.members.findNear()).map(({ pid }) => pid),
      freeze: () => freezeMembers(this.members, this.#cgroup),
      onExceeded: (verdict) => this.kill(verdict),
    });
    this.#disk.watch();
  }

  /** The fields of a new sandbox's record about its groups. */
  static async locate(
    key: string,
    limits: SandboxLimits | undefined,
  ): Promise<Pick<SandboxRecord, "cgroup" | "controllers" | "limits">> {
    const cgroup = await Cgroup.locate(`sluice-${key}`);
    const found = cgroup === undefined ? {} : { cgroup: cgroup.path };
    if (limits === undefined) return found;
    const controllers: ControllerPaths = await Controllers.locate(`sluice-${key}`, cgroup?.path);
    return { ...found, controllers, limits };
  }

  /** Adapts the record of an earlier server: if the parent of its groups is gone, new ones are found for this server. */
  static async relocate(folder: SandboxFolder, record: SandboxRecord): Promise<SandboxRecord> {
    const { cgroup, controllers, ...rest } = record;
    const parents = [cgroup, ...Object.values(controllers ?? {})].flatMap((path) => path ?? []).map(dirname);
    if (await allExist(parents)) return record;
    const moved = { ...rest, ...(await Enclosure.locate(folder.key, record.limits)) };
    await folder.make(moved);
    return moved;
  }

  /**
   * The prefix that puts a command and its descendants into the control groups. It is tried first with another program,
   * unless the command `reports` its own start.
   */
  async prefix({ reports = false }: { reports?: boolean } = {}): Promise<readonly string[]> {
    await this.#ending;
    this.#disk?.begin();
    // Callers in the meantime share the result.
    this.#prefixing ??= this.#buildPrefix(reports).finally(() => {
      this.#prefixing = undefined;
    });
    return this.#prefixing;
  }

  async #buildPrefix(reports: boolean): Promise<readonly string[]> {
    const known = this.#prefix;
    // Another server may have removed the groups.
    if (known !== undefined && (await allExist(this.#groups))) return known;
    await rm(this.#verdictFile, { force: true });
    const prefix = [...toGroupPrefix(await this.#makeGroups()), ...this.#markPrefix];
    if (!reports) await prove(prefix);
    this.#prefix = prefix;
    return prefix;
  }

  /** Starts a program as a member of the sandbox; returns its pid. It outlives the server. */
  async start(argv: readonly string[], options: StartOptions): Promise<number> {
    const child = await startProgram([...(await this.prefix()), ...argv], options);
    child.unref();
    await this.members.add(child.pid as number);
    return child.pid as number;
  }

  /** Adds a started command to the members, and waits for its result. */
  async track<T>(child: ChildProcess, result: Promise<T>): Promise<T> {
    const [settled] = await Promise.allSettled([result, this.members.add(child.pid as number)]);
    if (settled.status === "rejected") throw settled.reason;
    return settled.value;
  }

  /** Ends all processes. A start in the meantime waits until they are gone, and lives. */
  kill(why?: string): Promise<void> {
    const ending = this.#ending.then(() => this.#killNow(why));
    this.#ending = ending.catch(() => {});
    return ending;
  }

  async #killNow(why: string | undefined): Promise<void> {
    const verdict = why ?? (await this.#controllers.verdict());
    if (verdict !== undefined) await this.#remember(verdict);
    this.#disk?.unwatch();
    this.#prefix = undefined;
    await killMembers(this.members, this.#cgroup);
    await this.#controllers.remove();
  }

  pause(): Promise<void> {
    return pauseMembers(this.members, this.#cgroup);
  }

  resume(): Promise<void> {
    return resumeMembers(this.members, this.#cgroup);
  }

  async verdict(): Promise<string | undefined> {
    const now = await this.#controllers.verdict();
    return now ?? readFile(this.#verdictFile, "utf8").catch(() => undefined);
  }

  /** Stores the verdict on disk: the groups that know it are removed, and the server may end before a client asks. */
  #remember(verdict: string): Promise<void> {
    return writeFile(this.#verdictFile, verdict, { mode: 0o600 }).catch(() => {});
  }

  async #makeGroups(): Promise<readonly string[]> {
    try {
      await this.#controllers.make();
      await this.#cgroup?.make();
    } catch (error) {
      if (error instanceof SluiceError) throw error;
      const detail = `The control groups of the sandbox cannot be made (${(error as Error).message}), so nothing is started without them. Give the server back its rights there, or run it where it may make groups.`;
      throw new SluiceError("internal", detail, {}, { cause: error });
    }
    return this.#groups;
  }

  get #groups(): string[] {
    const own = this.#cgroup === undefined ? [] : [this.#cgroup.path];
    return [...new Set([...own, ...this.#controllers.groups])];
  }
}

function allExist(paths: readonly string[]): Promise<boolean> {
  return succeeds(Promise.all(paths.map((path) => access(path))));
}

/** The folders that a sandbox's disk limit measures. */
export function toLimitedFolders(folder: SandboxFolder, record: SandboxRecord): LimitedFolders {
  const { workspace } = folder.paths(record.directory);
  return { own: folder.path, workspace, spools: folder.spools, baselineFile: join(folder.path, "disk") };
}

/** Proves that a program can be started with this prefix: nobody would see the failure of a later start. */
async function prove(prefix: readonly string[]): Promise<void> {
  const [program, ...args] = [...prefix, "/bin/sh", "-c", ":"];
  if (program === undefined || prefix.length === 0) return;
  await run(program, args, { cwd: "/", env: { PATH: "/usr/bin:/bin" } }).catch(
    (error: Error & { stderr?: string }) => {
      throw notJoined(error.stderr?.trim() || error.message, error);
    },
  );
}

function notJoined(reason: string, cause: Error): SluiceError {
  const detail = `A process cannot be put into the sandbox's control groups (${reason}), so nothing is started outside of them. Give the server back its rights there, or run it where it may make groups.`;
  return new SluiceError("internal", detail, {}, { cause });
}

/** The refusal for a process whose start failed because it could not join its groups; undefined for other failures. */
export function toNotJoined(error: Error): SluiceError | undefined {
  return error.message.startsWith(CANNOT_JOIN) ? notJoined(error.message, error) : undefined;
}

/** The limits that were asked for and that no control group enforces. */
export function toUnlimited(record: SandboxRecord): (keyof SandboxLimits)[] {
  const { limits = {}, controllers = {} } = record;
  const missing: [keyof SandboxLimits, boolean][] = [
    ["memoryBytes", controllers.memory === undefined],
    ["processes", controllers.pids === undefined],
    ["cpus", controllers.cpu === undefined],
  ];
  return missing.filter(([name, lacks]) => lacks && limits[name] !== undefined).map(([name]) => name);
}
