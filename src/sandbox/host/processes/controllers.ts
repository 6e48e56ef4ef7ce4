import { dirname, join } from "node:path";
import { SluiceError } from "../../../contract/index.ts";
import { readFile } from "../../../disk/sync-files.ts";
import type { SandboxLimits } from "../../port.ts";
import { handDown, isWritable, makeGroup, parseGroups, removeGroup, writeSetting } from "./cgroup.ts";

type Controller = "memory" | "pids" | "cpu";
const CONTROLLERS: readonly Controller[] = ["memory", "pids", "cpu"];

/** For each controller that this host has, the group that limits a sandbox. On version 2 it is the same for all. */
export type ControllerPaths = Readonly<Partial<Record<Controller, string>>>;

/** The limits of a sandbox that control groups enforce. */
export class Controllers {
  readonly paths: ControllerPaths;
  readonly #limits: SandboxLimits;

  constructor(paths: ControllerPaths, limits: SandboxLimits) {
    this.paths = paths;
    this.#limits = limits;
  }

  /** Finds the groups for a new sandbox. `unified` is its version 2 group, whose parent may have the controllers. */
  static async locate(name: string, unified: string | undefined): Promise<ControllerPaths> {
    const found = await Promise.all(
      CONTROLLERS.map(async (controller) => {
        const path = (await ofVersion2(controller, unified)) ?? (await ofVersion1(controller, name));
        return path === undefined ? [] : [[controller, path] as const];
      }),
    );
    return Object.fromEntries(found.flat());
  }

  /** The groups that a process has to join. */
  get groups(): readonly string[] {
    return [...new Set(Object.values(this.paths))];
  }

  /** Makes the groups and sets the limits; harmless where that is done already. */
  async make(): Promise<void> {
    for (const path of this.groups) await makeGroup(path);
    const { memory, pids, cpu } = this.paths;
    const { memoryBytes, processes, cpus } = this.#limits;
    if (memory !== undefined && memoryBytes !== undefined)
      demand(await limitMemory(memory, memoryBytes), "memory", memory);
    if (pids !== undefined && processes !== undefined)
      demand(await writeSetting(pids, "pids.max", String(processes)), "processes", pids);
    if (cpu !== undefined && cpus !== undefined) demand(await limitCpus(cpu, cpus), "processor time", cpu);
  }

  /** The limit that was hit, in words; undefined where none was. */
  async verdict(): Promise<string | undefined> {
    const { memory, pids } = this.paths;
    const { memoryBytes, processes } = this.#limits;
    if (memory !== undefined && memoryBytes !== undefined) {
      const killed = await count(memory, ["memory.events", "memory.oom_control"], "oom_kill");
      if (killed > 0) return `out of memory: limit ${toMegabytes(memoryBytes)}`;
    }
    if (pids === undefined || processes === undefined) return undefined;
    const refused = await count(pids, ["pids.events"], "max");
    return refused > 0 ? `too many processes: limit ${processes}` : undefined;
  }

  async remove(): Promise<void> {
    for (const path of this.groups) await removeGroup(path);
  }
}

/** The version 2 group, if its parent hands the controller down or can be made to. */
async function ofVersion2(controller: Controller, unified: string | undefined): Promise<string | undefined> {
  if (unified === undefined) return undefined;
  const handedDown = join(dirname(unified), "cgroup.subtree_control");
  const has = async (): Promise<boolean> =>
    (await readFile(handedDown, "utf8").catch(() => "")).trim().split(" ").includes(controller);
  if (!(await has())) await handDown(dirname(unified), [controller]);
  return (await has()) ? unified : undefined;
}

async function ofVersion1(controller: Controller, name: string): Promise<string | undefined> {
  const [mounts, own] = await Promise.all(
    ["/proc/self/mounts", "/proc/self/cgroup"].map((file) => readFile(file, "utf8").catch(() => "")),
  );
  const mount = mounts
    ?.split("\n")
    .map((line) => line.split(" "))
    .find(([, , type, options]) => type === "cgroup" && options?.split(",").includes(controller))?.[1];
  const group = parseGroups(own ?? "").find(({ controllers }) => controllers.includes(controller))?.path;
  if (mount === undefined || group === undefined) return undefined;
  // In a container the path may be the host's path, which does not exist below the mount.
  for (const parent of [join(mount, group), mount]) {
    if (await isWritable(parent)) return join(parent, name);
  }
  return undefined;
}

/** Sets the limit of memory; true where it holds. Not every kernel can limit swap, so a failure of that is ignored. */
async function limitMemory(group: string, bytes: number): Promise<boolean> {
  if (await writeSetting(group, "memory.max", String(bytes))) {
    await writeSetting(group, "memory.swap.max", "0");
    return true;
  }
  const limited = await writeSetting(group, "memory.limit_in_bytes", String(bytes));
  await writeSetting(group, "memory.memsw.limit_in_bytes", String(bytes));
  return limited;
}

async function limitCpus(group: string, cpus: number): Promise<boolean> {
  const period = 100_000;
  const quota = Math.max(1_000, Math.round(cpus * period));
  if (await writeSetting(group, "cpu.max", `${quota} ${period}`)) return true;
  await writeSetting(group, "cpu.cfs_period_us", String(period));
  return writeSetting(group, "cpu.cfs_quota_us", String(quota));
}

function demand(limited: boolean, what: string, group: string): void {
  if (limited) return;
  const detail = `The limit of ${what} cannot be set on the control group ${group}, so nothing is started without it. Give the server back its rights there, or run it where it may make groups.`;
  throw new SluiceError("internal", detail, { group });
}

async function count(group: string, names: readonly string[], event: string): Promise<number> {
  for (const name of names) {
    const text = await readFile(join(group, name), "utf8").catch(() => undefined);
    const line = text?.split("\n").find((line) => line.startsWith(`${event} `));
    if (line !== undefined) return Number(line.slice(event.length + 1));
  }
  return 0;
}

function toMegabytes(bytes: number): string {
  return `${Math.round(bytes / 1024 / 1024)} MB`;
}
