import { delimiter, dirname, posix } from "node:path";
import { lstat, readlink, realpath, stat } from "../../disk/on-the-spot.ts";
import { refuseExposed } from "../host/directory.ts";
import { PINNED } from "../host/files/paths.ts";

export interface Mount {
  readonly host: string;
  readonly inside: string;
  readonly writable: boolean;
}

/** The search path for the system's programs. */
export const SYSTEM_PATH: readonly string[] = [
  "/usr/local/sbin",
  "/usr/local/bin",
  "/usr/sbin",
  "/usr/bin",
  "/sbin",
  "/bin",
];

/** The host's programs and libraries. Of the rest of the host's system, only the parts in `etc.ts` are visible. */
const FOLDERS = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"];

/** Settings of the host's kernel. A process of the host's root may write them without any capability. */
const READ_ONLY = ["/proc/sys", "/proc/fs"];

/** Triggers, and files that only root may read. Each is covered with an empty file. */
const EMPTY_FILES = [
  "/proc/kcore",
  "/proc/keys",
  "/proc/kmsg",
  "/proc/kpagecgroup",
  "/proc/kpagecount",
  "/proc/kpageflags",
  "/proc/latency_stats",
  "/proc/mtrr",
  "/proc/pagetypeinfo",
  "/proc/sched_debug",
  "/proc/slabinfo",
  "/proc/sysrq-trigger",
  "/proc/timer_list",
  "/proc/vmallocinfo",
];
const EMPTY_FOLDERS = ["/proc/acpi", "/proc/asound", "/proc/scsi"];

const known = new Map<string, Promise<string[]>>();

/** bwrap's options that mount the system read-only. */
export function systemMounts(): Promise<string[]> {
  return once("system", () => all(FOLDERS.map(findMount)));
}

/** bwrap's options that cover parts of /proc. By itself bwrap covers only some folders that are writable. */
export function procCovers({ isHostRoot }: { isHostRoot: boolean }): Promise<string[]> {
  return once(`proc ${isHostRoot}`, () =>
    all([
      ...READ_ONLY.map((path) => whereFound(path, ["--ro-bind", path, path])),
      // Their modes keep all users but root out.
      ...(isHostRoot ? EMPTY_FILES : []).map((path) => whereFound(path, ["--ro-bind", "/dev/null", path])),
      ...(isHostRoot ? EMPTY_FOLDERS : []).map((path) =>
        whereFound(path, ["--tmpfs", path, "--remount-ro", path]),
      ),
    ]),
  );
}

/** Whether this path of the host is part of the mounted system. */
export function isOfSystem(path: string): boolean {
  return FOLDERS.some((root) => path === root || path.startsWith(`${root}/`));
}

async function findMount(path: string): Promise<string[]> {
  const found = await lstat(path).catch(() => undefined);
  if (found === undefined) return [];
  // /bin is a link into /usr on most hosts.
  const target = found.isSymbolicLink() ? await readlink(path) : undefined;
  if (target !== undefined && isOfSystem(posix.resolve("/", target))) return ["--symlink", target, path];
  return ["--ro-bind", path, path];
}

async function whereFound(path: string, options: string[]): Promise<string[]> {
  return (await lstat(path).catch(() => undefined)) === undefined ? [] : options;
}

async function all(options: Promise<string[]>[]): Promise<string[]> {
  return (await Promise.all(options)).flat();
}

function once(name: string, make: () => Promise<string[]>): Promise<string[]> {
  const made = known.get(name) ?? make();
  known.set(name, made);
  return made;
}

/** Mounts of the host paths that a launch needs, and of their real paths: a program finds its parts beside its file. */
export async function resolveNeeds(needs: readonly string[], hide: readonly string[]): Promise<Mount[]> {
  const found = await Promise.all(
    needs.map(async (path) => {
      const real = await realpath(path).catch(() => undefined);
      return real === undefined ? [] : [path, real];
    }),
  );
  const paths = [...new Set(found.flat())];
  refuseExposed(paths, hide);
  return paths.map((path) => ({ host: path, inside: path, writable: false }));
}

/** The search path inside. It has the folders of needed programs, so that these are found by their names. */
export async function findInnerPath(needs: readonly string[]): Promise<string> {
  const folders = await Promise.all(
    needs.map(async (path) => {
      const isFile = !isOfSystem(path) && (await stat(path).catch(() => undefined))?.isFile();
      return isFile ? [dirname(path)] : [];
    }),
  );
  return [...new Set([`${PINNED.home}/.local/bin`, ...folders.flat(), ...SYSTEM_PATH])].join(delimiter);
}
