import { posix } from "node:path";
import { lstat, readlink } from "../../disk/onTheSpot.ts";

/** The host's programs and libraries. Beside them and what stands in `etc.ts`, nothing of the host is there. */
const FOLDERS = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"];

/** Settings of the host's kernel. Where the agent's user is the host's root, no capability is needed to write them. */
const READ_ONLY = ["/proc/sys", "/proc/fs"];

/** Triggers, and what root alone may read. */
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

/** bwrap's options for the system, read-only. */
export function systemMounts(): Promise<string[]> {
  return once("system", () => all(FOLDERS.map(toMount)));
}

/** bwrap's options over /proc: bwrap itself covers only what it finds writable, and looks at folders alone. */
export function procCovers({ isHostRoot }: { isHostRoot: boolean }): Promise<string[]> {
  return once(`proc ${isHostRoot}`, () =>
    all([
      ...READ_ONLY.map((path) => whereFound(path, ["--ro-bind", path, path])),
      // The host's own users are kept from these by their modes.
      ...(isHostRoot ? EMPTY_FILES : []).map((path) => whereFound(path, ["--ro-bind", "/dev/null", path])),
      ...(isHostRoot ? EMPTY_FOLDERS : []).map((path) =>
        whereFound(path, ["--tmpfs", path, "--remount-ro", path]),
      ),
    ]),
  );
}

/** Whether the sandbox sees this path of the host by the list above. */
export function isOfSystem(path: string): boolean {
  return FOLDERS.some((root) => path === root || path.startsWith(`${root}/`));
}

async function toMount(path: string): Promise<string[]> {
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
