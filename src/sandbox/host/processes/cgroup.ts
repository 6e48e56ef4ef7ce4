import { constants, mkdir, readdir, rmdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { access, readFile, stat, writeFile } from "../../../disk/sync-files.ts";
import { ignoring, succeeds } from "../files/open-file.ts";
import { isInside } from "../files/paths.ts";
import { readProcesses } from "./procfs.ts";

/**
 * A version 2 control group with the processes of one sandbox: no process can leave it by forking. It needs no
 * controllers, only the right to make a group below the server's own.
 */
export class Cgroup {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  /** The group of this name; undefined where the server may make no group. */
  static async locate(name: string): Promise<Cgroup | undefined> {
    const parent = await findParentGroup();
    if (parent === undefined) return undefined;
    sweepLater(parent);
    return new Cgroup(join(parent, name));
  }

  /** Makes the group if it does not exist. */
  async make(): Promise<void> {
    await makeGroup(this.path);
    await access(join(this.path, "cgroup.procs"), constants.W_OK);
  }

  async members(): Promise<number[]> {
    const files = [this.path, ...(await this.#below())].map((path) => join(path, "cgroup.procs"));
    const texts = await Promise.all(files.map((file) => readFile(file, "utf8").catch(gone)));
    const pids = texts.flatMap((text) => (text ?? "").split("\n").filter(Boolean).map(Number));
    // Members in another pid namespace are all listed as 0; `cgroup.kill` and `freeze` reach them.
    return pids.filter((pid) => pid > 0);
  }

  async isEmpty(): Promise<boolean> {
    const events = await readFile(join(this.path, "cgroup.events"), "utf8").catch(gone);
    return events === undefined || /^populated 0$/m.test(events);
  }

  async isFrozen(): Promise<boolean> {
    return (await readFile(join(this.path, "cgroup.freeze"), "utf8").catch(gone))?.trim() === "1";
  }

  /** Ends all members at once; false where the kernel is too old, and the caller has to kill each. */
  kill(): Promise<boolean> {
    return writeSetting(this.path, "cgroup.kill", "1");
  }

  /** Freezes or resumes all members, and waits until the kernel has done it; false where it cannot. */
  async freeze(frozen: boolean): Promise<boolean> {
    if (!(await writeSetting(this.path, "cgroup.freeze", frozen ? "1" : "0"))) return false;
    for (let tries = 0; tries < 500; tries++) {
      const events = await readFile(join(this.path, "cgroup.events"), "utf8").catch(() => "");
      if (events.includes(`frozen ${frozen ? 1 : 0}`)) return true;
      await sleep(2);
    }
    return false;
  }

  /** Removes the group and the groups below it; a group with members stays. */
  async remove(): Promise<void> {
    for (const path of [...(await this.#below()).toReversed(), this.path]) await removeGroup(path);
  }

  async #below(): Promise<string[]> {
    const entries = await readdir(this.path, { withFileTypes: true, recursive: true }).catch(gone);
    return (entries ?? [])
      .filter((entry) => entry.isDirectory())
      .map((entry) => join(entry.parentPath, entry.name));
  }
}

const SWEEP_MS = 3_600_000;
let isSweeping = false;

/** Removes the groups that killed servers left, once in the life of this process. It keeps no process running. */
function sweepLater(parent: string): void {
  if (isSweeping) return;
  isSweeping = true;
  const found = findEmptyGroups(parent);
  setTimeout(() => void found.then((before) => sweepGroups(parent, before)), SWEEP_MS).unref();
}

/**
 * Removes the groups that were empty before and are empty now. Another server may just have made one and not joined it
 * yet. Its age would not tell: the clock may have been set since.
 */
export async function sweepGroups(parent: string, before: ReadonlyMap<string, number>): Promise<void> {
  for (const [path, inode] of await findEmptyGroups(parent)) {
    if (before.get(path) === inode) await rmdir(path).catch(() => {});
  }
}

/** The empty groups of sandboxes, with their inodes: a group that is made again has another one. */
export async function findEmptyGroups(parent: string): Promise<ReadonlyMap<string, number>> {
  const names = (await readdir(parent).catch(() => [])).filter((name) => /^sluice-[0-9a-f]{20}$/.test(name));
  const empty = new Map<string, number>();
  for (const path of names.map((name) => join(parent, name))) {
    const found = await stat(path).catch(() => undefined);
    if (found && (await new Cgroup(path).isEmpty().catch(() => false))) empty.set(path, found.ino);
  }
  return empty;
}

export const CANNOT_JOIN = "cannot join the control group";

/** The prefix that puts a command into these groups before its first instruction, or fails. */
export function toGroupPrefix(groups: readonly string[]): readonly string[] {
  if (groups.length === 0) return [];
  const join = `n=$1; shift
while [ "$n" -gt 0 ]; do
  { echo $$ > "$1/cgroup.procs"; } 2> /dev/null || { echo "${CANNOT_JOIN} $1" >&2; exit 125; }
  shift; n=$((n - 1))
done
exec "$@"`;
  return ["/bin/sh", "-c", join, "sh", String(groups.length), ...groups];
}

/** The groups in a process's file `cgroup`. A group of version 2 names no controllers. */
export function parseGroups(text: string): { controllers: readonly string[]; path: string }[] {
  return text.split("\n").flatMap((line) => {
    const [, names, path] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    if (names === undefined || path === undefined) return [];
    return [{ controllers: names.split(",").filter(Boolean), path }];
  });
}

/** Makes a group, but not its parents: those belong to the host. */
export async function makeGroup(path: string): Promise<void> {
  await mkdir(path).catch(ignoring("EEXIST"));
}

/** For a `catch`: a missing group has no members. Other failures say nothing about the members, so they are thrown. */
const gone = ignoring("ENOENT", "ENODEV");

/** Writes a file of a group; false where that fails. "r+" never creates it: on a kernel without it the write has to fail. */
export function writeSetting(group: string, name: string, value: string): Promise<boolean> {
  return succeeds(writeFile(join(group, name), value, { flag: "r+" }));
}

/** Removes a group, with retries: a process that was just killed keeps its group busy for a moment. */
export async function removeGroup(path: string): Promise<void> {
  for (let tries = 50; tries > 0; tries -= 1) {
    const code = await rmdir(path).then(
      () => undefined,
      (error: NodeJS.ErrnoException) => error.code,
    );
    if (code !== "EBUSY") return;
    await sleep(10);
  }
}

/**
 * The group that sandboxes' groups are made in: the nearest one from the delegated group upwards that hands down memory
 * and pids, else the delegated group itself. Undefined where the server may make no group.
 */
async function findParentGroup(): Promise<string | undefined> {
  const own = /^0::(.*)$/m.exec(await readFile("/proc/self/cgroup", "utf8").catch(() => ""))?.[1];
  if (own === undefined) return undefined;
  // A pure version 2 host mounts it at the first path, a hybrid one at the second, beside the version 1 controllers.
  for (const mount of ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]) {
    if (!(await isWritable(join(mount, own))) || !(await succeeds(access(join(mount, "cgroup.controllers")))))
      continue;
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

/** Whether the server may put processes into a group. */
export function isWritable(group: string): Promise<boolean> {
  return succeeds(access(join(group, "cgroup.procs"), constants.W_OK));
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
    // EBUSY: a group with processes of its own hands no controller down. Under systemd's Delegate=yes these processes are
    // the server's, and can be moved.
    if ((await enable(group, name)) === "EBUSY" && (await moveOut(group))) await enable(group, name);
  }
}

/** Moves the server and its descendants into a group below; false where the group has other processes, too. */
async function moveOut(group: string): Promise<boolean> {
  const leaf = join(group, SERVER_GROUP);
  if (!(await succeeds(mkdir(leaf, { recursive: true })))) return false;
  // Repeated until the group is empty: a child may start meanwhile.
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
