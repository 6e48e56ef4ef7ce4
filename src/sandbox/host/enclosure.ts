import type { ChildProcess } from "node:child_process";
import { execFile } from "node:child_process";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { access, readFile, rm, writeFile } from "../../disk/onTheSpot.ts";
import { SluiceError } from "../../contract/index.ts";
import type { SandboxLimits } from "../port.ts";
import { CANNOT_JOIN, Cgroup, toGroupPrefix } from "./cgroup.ts";
import { Controllers, type ControllerPaths } from "./controllers.ts";
import { DiskGuard, type GuardedFolders } from "./diskGuard.ts";
import type { SandboxFolder, SandboxRecord } from "./folder.ts";
import { freezeMembers, killMembers, pauseMembers, resumeMembers } from "./kill.ts";
import type { LimitMark } from "./limitMark.ts";
import { Members } from "./members.ts";

const run = promisify(execFile);

/** All processes of one sandbox: how they are held together, limited, stopped and ended. */
export class Enclosure {
  readonly members: Members;
  readonly #cgroup: Cgroup | undefined;
  readonly #controllers: Controllers;
  readonly #mark: readonly string[];
  readonly #disk: DiskGuard | undefined;
  readonly #file: string;
  #ending: Promise<void> = Promise.resolve();
  #prefix: readonly string[] | undefined;
  #proving: Promise<readonly string[]> | undefined;

  /** `mark` is how members are known without a group. */
  constructor(folder: SandboxFolder, record: SandboxRecord, mark?: LimitMark) {
    this.#file = join(folder.path, "verdict");
    this.#cgroup = record.cgroup === undefined ? undefined : new Cgroup(record.cgroup);
    this.#controllers = new Controllers(record.controllers ?? {}, record.limits ?? {});
    const { since } = record;
    this.members = new Members({ folder: folder.path, key: folder.key, cgroup: this.#cgroup, mark, since });
    this.#mark = mark?.prefix ?? [];
    const { diskBytes } = record.limits ?? {};
    if (diskBytes === undefined) return;
    this.#disk = new DiskGuard(toGuarded(folder, record), diskBytes, {
      isNeeded: () => this.members.any(),
      members: async () => this.#cgroup?.members() ?? (await this.members.findNear()).map(({ pid }) => pid),
      freeze: () => freezeMembers(this.members, this.#cgroup),
      onExceeded: (verdict) => this.kill(verdict),
    });
    this.#disk.watch();
  }

  /** What a record has to say of the groups of a new sandbox. */
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

  /** The record of an earlier life: groups whose parent is gone are made below the one that we are in now. */
  static async relocate(folder: SandboxFolder, record: SandboxRecord): Promise<SandboxRecord> {
    const { cgroup, controllers, ...rest } = record;
    const parents = [cgroup, ...Object.values(controllers ?? {})].flatMap((path) => path ?? []).map(dirname);
    const found = parents.map((path) => access(path).then(() => true));
    if ((await Promise.all(found).catch(() => [false])).every(Boolean)) return record;
    const moved = { ...rest, ...(await Enclosure.locate(folder.key, record.limits)) };
    await folder.make(moved);
    return moved;
  }

  /**
   * What goes before a command line so that nothing it starts can leave. Whatever `reports` says itself that it runs, or
   * why not, so that no other program has to show that it can.
   */
  async prefix({ reports = false }: { reports?: boolean } = {}): Promise<readonly string[]> {
    await this.#ending;
    this.#disk?.begin();
    // Once for all who come meanwhile.
    this.#proving ??= this.#toProven(reports).finally(() => {
      this.#proving = undefined;
    });
    return this.#proving;
  }

  async #toProven(reports: boolean): Promise<readonly string[]> {
    const known = this.#prefix;
    if (known !== undefined && (await this.#isMade())) return known;
    await rm(this.#file, { force: true });
    const prefix = [...toGroupPrefix(await this.#make()), ...this.#mark];
    if (!reports) await prove(prefix);
    this.#prefix = prefix;
    return prefix;
  }

  /** Remembers a started command while its result is awaited. */
  async await<T>(child: ChildProcess, result: Promise<T>): Promise<T> {
    const [settled] = await Promise.allSettled([result, this.members.add(child.pid as number)]);
    if (settled.status === "rejected") throw settled.reason;
    return settled.value;
  }

  /** Whoever starts something meanwhile waits: it is not meant. */
  kill(why?: string): Promise<void> {
    const ending = this.#ending.then(() => this.#killNow(why));
    this.#ending = ending.catch(() => {});
    return ending;
  }

  async #killNow(why: string | undefined): Promise<void> {
    const verdict = why ?? (await this.#controllers.verdict());
    if (verdict !== undefined) await this.#remember(verdict);
    this.#disk?.rest();
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
    return now ?? readFile(this.#file, "utf8").catch(() => undefined);
  }

  /** On the disk: the groups that know it go with the processes, and the server may go before it is asked. */
  #remember(verdict: string): Promise<void> {
    return writeFile(this.#file, verdict, { mode: 0o600 }).catch(() => {});
  }

  async #make(): Promise<readonly string[]> {
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

  /** Another life of ours may have removed them. */
  async #isMade(): Promise<boolean> {
    const found = this.#groups.map((path) => access(path).then(() => true));
    return (await Promise.all(found).catch(() => [false])).every(Boolean);
  }
}

/** The folders of a sandbox, and where its guard remembers what it began with. */
export function toGuarded(folder: SandboxFolder, record: SandboxRecord): GuardedFolders {
  const { workspace } = folder.paths(record.directory);
  return { own: folder.path, workspace, file: join(folder.path, "disk") };
}

/** That a program can be started so. Once for all that follow, whose own failure would be seen by nobody. */
async function prove(prefix: readonly string[]): Promise<void> {
  const [program, ...args] = [...prefix, "/bin/true"];
  if (program === undefined || prefix.length === 0) return;
  await run(program, args, { cwd: "/", env: { PATH: "/usr/bin:/bin" } }).catch(
    (error: Error & { stderr?: string }) => {
      throw notJoined(error.stderr?.trim() || error.message, error);
    },
  );
}

function notJoined(said: string, cause: Error): SluiceError {
  const detail = `A process cannot be put into the sandbox's control groups (${said}), so nothing is started outside of them. Give the server back its rights there, or run it where it may make groups.`;
  return new SluiceError("internal", detail, {}, { cause });
}

/** Whether a process that did not come to run says that it was kept out of its groups. */
export function toNotJoined(error: Error): SluiceError | undefined {
  return error.message.startsWith(CANNOT_JOIN) ? notJoined(error.message, error) : undefined;
}

/** The limits that were asked for and that no group keeps. */
export function toUnlimited(record: SandboxRecord): (keyof SandboxLimits)[] {
  const { limits = {}, controllers = {} } = record;
  const missing: [keyof SandboxLimits, boolean][] = [
    ["memoryBytes", controllers.memory === undefined],
    ["processes", controllers.pids === undefined],
    ["cpus", controllers.cpu === undefined],
  ];
  return missing.filter(([name, lacks]) => lacks && limits[name] !== undefined).map(([name]) => name);
}
