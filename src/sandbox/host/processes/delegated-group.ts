import { constants, mkdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { access, readFile, writeFile } from "../../../disk/on-the-spot.ts";
import { isInside } from "../files/paths.ts";
import { readProcesses } from "./procfs.ts";

/**
 * The group that sandboxes' groups are made in: the nearest one from the delegated group upwards that hands down memory
 * and pids, else the delegated group itself. Undefined where the server may make no group.
 */
export async function findParentGroup(): Promise<string | undefined> {
  const own = /^0::(.*)$/m.exec(await readFile("/proc/self/cgroup", "utf8").catch(() => ""))?.[1];
  if (own === undefined) return undefined;
  // A pure version 2 host mounts it at the first path, a hybrid one at the second, beside the version 1 controllers.
  for (const mount of ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]) {
    if (!(await isWritable(join(mount, own))) || !(await exists(join(mount, "cgroup.controllers")))) continue;
    const delegated = toDelegated(join(mount, own));
    for (let path = delegated; isInside(path, mount); path = dirname(path)) {
      const enabled = await readFile(join(path, "cgroup.subtree_control"), "utf8").catch(() => "");
      if (/\bmemory\b/.test(enabled) && /\bpids\b/.test(enabled) && (await isWritable(path))) return path;
    }
    await handDown(delegated, ["memory", "pids", "cpu"]);
    return delegated;
  }
  return undefined;
}

function isWritable(group: string): Promise<boolean> {
  return access(join(group, "cgroup.procs"), constants.W_OK).then(
    () => true,
    () => false,
  );
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

/** The group of the server itself, below the group that was delegated to it. `DelegateSubgroup=` of systemd may name it, too. */
const SERVER_GROUP = "sluice-server";

const handedDown = new Map<string, Promise<void>>();

/** The group that was delegated to the server, which may have moved itself into a group below it. */
export function toDelegated(own: string): string {
  return basename(own) === SERVER_GROUP ? dirname(own) : own;
}

/** Enables these controllers for the groups below this one, as far as the kernel and its owner permit. */
export function handDown(group: string, controllers: readonly string[]): Promise<void> {
  const key = `${group} ${controllers.join(" ")}`;
  const work = handedDown.get(key) ?? handDownNow(group, controllers);
  handedDown.set(key, work);
  return work;
}

async function handDownNow(group: string, controllers: readonly string[]): Promise<void> {
  const [available, enabled] = await Promise.all(
    ["cgroup.controllers", "cgroup.subtree_control"].map((name) => readWords(join(group, name))),
  );
  const missing = controllers.filter((name) => available?.includes(name) && !enabled?.includes(name));
  for (const name of missing) {
    // EBUSY: a group with processes of its own hands no controller down. Under systemd's Delegate=yes they are ours.
    if ((await enable(group, name)) === "EBUSY" && (await moveOut(group))) await enable(group, name);
  }
}

/** Moves the server and its descendants into a group below; false where the group has other processes, too. */
async function moveOut(group: string): Promise<boolean> {
  const leaf = join(group, SERVER_GROUP);
  const made = await mkdir(leaf, { recursive: true }).then(
    () => true,
    () => false,
  );
  if (!made) return false;
  // Until the group is empty: a child may start meanwhile.
  for (let tries = 0; tries < 20; tries++) {
    const pids = (await readWords(join(group, "cgroup.procs"))).map(Number);
    if (pids.length === 0) return true;
    if (!(await areOurs(pids))) return false;
    for (const pid of pids) await writeFile(join(leaf, "cgroup.procs"), String(pid)).catch(() => {});
  }
  return false;
}

async function areOurs(pids: readonly number[]): Promise<boolean> {
  const parents = new Map((await readProcesses()).map((row) => [row.pid, row.parent]));
  return pids.every((pid) => {
    for (let at: number | undefined = pid; at !== undefined; at = parents.get(at)) {
      if (at === process.pid) return true;
    }
    // A process that has just ended does not count.
    return !parents.has(pid);
  });
}

function enable(group: string, controller: string): Promise<string | undefined> {
  return writeFile(join(group, "cgroup.subtree_control"), `+${controller}`, { flag: "r+" }).then(
    () => undefined,
    (error: NodeJS.ErrnoException) => error.code,
  );
}

async function readWords(file: string): Promise<string[]> {
  const text = await readFile(file, "utf8").catch(() => "");
  return text.split(/\s+/).filter(Boolean);
}
