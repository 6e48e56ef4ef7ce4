import { mkdir, readFile, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { readProcesses } from "./procfs.ts";

/** Where the server itself is, below a group that was delegated to it. As `DelegateSubgroup=` may name it, too. */
const SERVER_GROUP = "sluice-server";

const done = new Map<string, Promise<void>>();

/** The group that a server was given, which is the one above where it has moved itself out of the way. */
export function toDelegated(own: string): string {
  return basename(own) === SERVER_GROUP ? dirname(own) : own;
}

/** Lets the groups below this one have these controllers, as far as the kernel and its owner permit. */
export function handDown(group: string, controllers: readonly string[]): Promise<void> {
  const key = `${group} ${controllers.join(" ")}`;
  const work = done.get(key) ?? handDownNow(group, controllers);
  done.set(key, work);
  return work;
}

async function handDownNow(group: string, controllers: readonly string[]): Promise<void> {
  const [available, enabled] = await Promise.all(
    ["cgroup.controllers", "cgroup.subtree_control"].map((name) => readWords(join(group, name))),
  );
  const missing = controllers.filter((name) => available?.includes(name) && !enabled?.includes(name));
  for (const name of missing) {
    // A group with processes of its own hands nothing down; under systemd's Delegate=yes that is us.
    if ((await enable(group, name)) === "EBUSY" && (await moveOut(group))) await enable(group, name);
  }
}

/** Moves this program with all that it has started into a group of its own; false where there are others. */
async function moveOut(group: string): Promise<boolean> {
  const leaf = join(group, SERVER_GROUP);
  const made = await mkdir(leaf, { recursive: true }).then(
    () => true,
    () => false,
  );
  if (!made) return false;
  // Until nobody is left: a child may be born meanwhile.
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
    // One that has just ended is nobody else's.
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
