import type { ChildProcess } from "node:child_process";
import { access, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { SandboxLimits } from "../port.ts";
import { Cgroup, toGroupPrefix } from "./cgroup.ts";
import { Controllers, type ControllerPaths } from "./controllers.ts";
import { DiskGuard } from "./diskGuard.ts";
import type { SandboxFolder, SandboxRecord } from "./folder.ts";
import { killMembers, pauseMembers, resumeMembers } from "./kill.ts";
import { Members } from "./members.ts";

/** All processes of one sandbox: how they are held together, limited, stopped and ended. */
export class Enclosure {
  readonly members: Members;
  readonly #cgroup: Cgroup | undefined;
  readonly #controllers: Controllers;
  readonly #disk: DiskGuard | undefined;
  readonly #file: string;
  #ending: Promise<void> = Promise.resolve();
  #held: readonly string[] = [];
  #prefix: readonly string[] | undefined;

  /** `weighed` are the folders that the limit of the disk is about. */
  constructor(folder: SandboxFolder, record: SandboxRecord, weighed: readonly string[]) {
    this.#file = join(folder.path, "verdict");
    this.#cgroup = record.cgroup === undefined ? undefined : new Cgroup(record.cgroup);
    this.#controllers = new Controllers(record.controllers ?? {}, record.limits ?? {});
    this.members = new Members({ folder: folder.path, key: folder.key, cgroup: this.#cgroup });
    const { diskBytes } = record.limits ?? {};
    if (diskBytes === undefined) return;
    this.#disk = new DiskGuard(weighed, diskBytes, {
      isNeeded: async () => (await this.members.find()).length > 0,
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

  /** What goes before a command line so that nothing it starts can leave. */
  async prefix(): Promise<readonly string[]> {
    await this.#ending;
    this.#disk?.watch();
    if (this.#prefix === undefined || !(await this.#isMade())) {
      await rm(this.#file, { force: true });
      await this.#controllers.make();
      this.#held = this.#cgroup !== undefined && (await this.#cgroup.make()) ? [this.#cgroup.path] : [];
      this.#prefix = toGroupPrefix(this.#groups);
    }
    return this.#prefix;
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

  get #groups(): string[] {
    return [...new Set([...this.#held, ...this.#controllers.groups])];
  }

  /** Another life of ours may have removed them. */
  async #isMade(): Promise<boolean> {
    const found = this.#groups.map((path) => access(path).then(() => true));
    return (await Promise.all(found).catch(() => [false])).every(Boolean);
  }
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
