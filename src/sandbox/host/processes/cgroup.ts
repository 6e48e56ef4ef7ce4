import { constants, mkdir, readdir, rmdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { access, readFile, stat, writeFile } from "../../../disk/on-the-spot.ts";
import { findParentGroup } from "./delegated-group.ts";

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
    swept ??= sweep(parent);
    await swept;
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
    return this.#write("cgroup.kill", "1");
  }

  /** Freezes or resumes all members, and waits until the kernel has done it; false where it cannot. */
  async freeze(frozen: boolean): Promise<boolean> {
    if (!(await this.#write("cgroup.freeze", frozen ? "1" : "0"))) return false;
    for (let tries = 0; tries < 500; tries++) {
      const events = await readFile(join(this.path, "cgroup.events"), "utf8").catch(() => "");
      if (events.includes(`frozen ${frozen ? 1 : 0}`)) return true;
      await new Promise((resolve) => setTimeout(resolve, 2));
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

  async #write(name: string, value: string): Promise<boolean> {
    // "r+" never creates the file: on a kernel without it the write has to fail.
    return writeFile(join(this.path, name), value, { flag: "r+" }).then(
      () => true,
      () => false,
    );
  }
}

const OLD_MS = 3_600_000;
let swept: Promise<void> | undefined;

/**
 * Removes the groups that killed servers left: empty, and older than an hour. A sandbox that is still in use makes its
 * group again.
 */
async function sweep(parent: string): Promise<void> {
  const names = (await readdir(parent).catch(() => [])).filter((name) => /^sluice-[0-9a-f]{20}$/.test(name));
  for (const path of names.map((name) => join(parent, name))) {
    const found = await stat(path).catch(() => undefined);
    if (found === undefined || Date.now() - found.ctimeMs < OLD_MS) continue;
    if (await new Cgroup(path).isEmpty().catch(() => false)) await rmdir(path).catch(() => {});
  }
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
  await mkdir(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
  });
}

/** For a `catch`: a missing group has no members. Another failure says nothing about them, and is thrown. */
function gone(error: NodeJS.ErrnoException): undefined {
  if (error.code === "ENOENT" || error.code === "ENODEV") return undefined;
  throw error;
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
