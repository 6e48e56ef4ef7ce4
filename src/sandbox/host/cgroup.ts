import { constants, mkdir, readdir, rmdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { access, readFile, stat, writeFile } from "../../disk/onTheSpot.ts";
import { handDown, toDelegated } from "./delegation.ts";
import { isInside } from "./mapping.ts";

/**
 * A version 2 control group: the one thing that no process can leave by forking.
 * It needs no controllers, only the right to make a group below our own.
 */
export class Cgroup {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  /** Where a group with this name would be, or undefined where we may make none. */
  static async locate(name: string): Promise<Cgroup | undefined> {
    const parent = await findParent();
    if (parent === undefined) return undefined;
    swept ??= sweep(parent);
    await swept;
    return new Cgroup(join(parent, name));
  }

  /** Makes it if it is not there. */
  async make(): Promise<void> {
    await makeGroup(this.path);
    await access(join(this.path, "cgroup.procs"), constants.W_OK);
  }

  async members(): Promise<number[]> {
    const files = [this.path, ...(await this.#below())].map((path) => join(path, "cgroup.procs"));
    const texts = await Promise.all(files.map((file) => readFile(file, "utf8").catch(gone)));
    const pids = texts.flatMap((text) => (text ?? "").split("\n").filter(Boolean).map(Number));
    // Members in another pid namespace are all told as 0; `cgroup.kill` and `freeze` reach them.
    return pids.filter((pid) => pid > 0);
  }

  async isEmpty(): Promise<boolean> {
    const events = await readFile(join(this.path, "cgroup.events"), "utf8").catch(gone);
    return events === undefined || /^populated 0$/m.test(events);
  }

  async isFrozen(): Promise<boolean> {
    return (await readFile(join(this.path, "cgroup.freeze"), "utf8").catch(gone))?.trim() === "1";
  }

  /** Ends all members at once; false where the kernel is too old to, and each has to be killed. */
  kill(): Promise<boolean> {
    return this.#write("cgroup.kill", "1");
  }

  /** Resolves when all members stand still, or go on; false where the kernel cannot. */
  async freeze(frozen: boolean): Promise<boolean> {
    if (!(await this.#write("cgroup.freeze", frozen ? "1" : "0"))) return false;
    for (let tries = 0; tries < 500; tries++) {
      const events = await readFile(join(this.path, "cgroup.events"), "utf8").catch(() => "");
      if (events.includes(`frozen ${frozen ? 1 : 0}`)) return true;
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    return false;
  }

  /** Removes it and the groups that were made in it; one that is not empty stays. */
  async remove(): Promise<void> {
    for (const path of [...(await this.#below()).toReversed(), this.path]) await removeGroup(path);
  }

  async #below(): Promise<string[]> {
    const entries = await readdir(this.path, { withFileTypes: true, recursive: true }).catch(gone);
    return (entries ?? [])
      .filter((entry) => entry.isDirectory())
      .map((entry) => join(entry.parentPath, entry.name));
  }

  async #write(name: string, value: string): Promise<boolean> {
    // Never created: on a kernel without the file the write has to fail.
    return writeFile(join(this.path, name), value, { flag: "r+" }).then(
      () => true,
      () => false,
    );
  }
}

const OLD_MS = 3_600_000;
let swept: Promise<void> | undefined;

/** Removes what killed servers have left: empty groups of an hour and more. A sandbox that is still in use makes its own again. */
async function sweep(parent: string): Promise<void> {
  const names = (await readdir(parent).catch(() => [])).filter((name) => /^sluice-[0-9a-f]{20}$/.test(name));
  for (const path of names.map((name) => join(parent, name))) {
    const found = await stat(path).catch(() => undefined);
    if (found === undefined || Date.now() - found.ctimeMs < OLD_MS) continue;
    if (await new Cgroup(path).isEmpty().catch(() => false)) await rmdir(path).catch(() => {});
  }
}

export const CANNOT_JOIN = "cannot join the control group";

/** What goes before a command line so that it runs in these groups from its first instruction on, or not at all. */
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

/** Our own group, or the nearest one above it that hands down what limits need, if we may make a group there. */
async function findParent(): Promise<string | undefined> {
  const own = /^0::(.*)$/m.exec(await readFile("/proc/self/cgroup", "utf8").catch(() => ""))?.[1];
  if (own === undefined) return undefined;
  // A pure version 2 host mounts it here, a hybrid one beside the version 1 controllers.
  for (const mount of ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]) {
    if (!(await isWritable(join(mount, own))) || !(await exists(join(mount, "cgroup.controllers")))) continue;
    const delegated = toDelegated(join(mount, own));
    for (let path = delegated; isInside(path, mount); path = dirname(path)) {
      const limits = await readFile(join(path, "cgroup.subtree_control"), "utf8").catch(() => "");
      if (/\bmemory\b/.test(limits) && /\bpids\b/.test(limits) && (await isWritable(path))) return path;
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

/** Never its parents: those are the host's own. */
export async function makeGroup(path: string): Promise<void> {
  await mkdir(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
  });
}

/** A group that is gone has no members; what else went wrong says nothing about them. */
function gone(error: NodeJS.ErrnoException): undefined {
  if (error.code === "ENOENT" || error.code === "ENODEV") return undefined;
  throw error;
}

/** A process that was just killed keeps its group busy for a moment longer. */
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
