import { accessSync, constants, lstatSync, mkdtempSync, statfsSync } from "node:fs";
import { delimiter, dirname, join, posix } from "node:path";
import {
  chmod,
  copyFile,
  lstat,
  mkdir,
  readFile,
  readlink,
  realpath,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from "../../disk/sync-files.ts";
import type { Mount } from "../egress/egress.ts";
import { isInside, PINNED } from "../host/files/paths.ts";
import { toKey } from "../host/folder.ts";
import { refuseExposed } from "../host/start.ts";

/** The search path for the system's programs. */
export const SYSTEM_PATH: readonly string[] = [
  "/usr/local/sbin",
  "/usr/local/bin",
  "/usr/sbin",
  "/usr/bin",
  "/sbin",
  "/bin",
];

/** The host's programs and libraries. Of the rest of the host's system, only a part of /etc is visible. */
const FOLDERS = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"];

/** Settings of the host's kernel. A process of the host's root may write them without any capability. */
const READ_ONLY = ["/proc/sys", "/proc/fs"];

/** Triggers, and files that only root may read. Each is covered with an empty file. */
const EMPTY_FILES =
  "kcore keys kmsg kpagecgroup kpagecount kpageflags latency_stats mtrr pagetypeinfo sched_debug slabinfo sysrq-trigger timer_list vmallocinfo"
    .split(" ")
    .map((name) => `/proc/${name}`);
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
      // Only root can read these files, so only root needs the covers.
      ...(isHostRoot ? EMPTY_FILES : []).map((path) => whereFound(path, ["--ro-bind", "/dev/null", path])),
      ...(isHostRoot ? EMPTY_FOLDERS : []).map((path) =>
        whereFound(path, ["--tmpfs", path, "--remount-ro", path]),
      ),
    ]),
  );
}

/** Whether this path of the host is part of the mounted system. */
export function isOfSystem(path: string): boolean {
  return FOLDERS.some((root) => isInside(path, root));
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

/** The public part of the host's /etc. Its folders are mounted, its files are copied. */
const ETC_FOLDERS = [
  "alternatives",
  "fonts",
  "java",
  "pki/ca-trust",
  "pki/java",
  "pki/tls/certs",
  "ssl/certs",
  "ssl/java",
  "terminfo",
];
const ETC_FILES = [
  "debian_version",
  "ld.so.cache",
  "localtime",
  "magic",
  "mime.types",
  "os-release",
  "pki/tls/cert.pem",
  "pki/tls/openssl.cnf",
  "protocols",
  "services",
  "ssl/cert.pem",
  "ssl/openssl.cnf",
  "timezone",
];

/** The names of the host's folders in /etc that every sandbox sees. */
export function etcFolders(): Promise<string[]> {
  return once("etc", async () => {
    const found = await Promise.all(
      ETC_FOLDERS.map(async (name) => (await stat(join("/etc", name)).catch(() => undefined))?.isDirectory()),
    );
    return ETC_FOLDERS.filter((_, index) => found[index]);
  });
}

/** Makes a sandbox's /etc, with an empty folder as the target of each mount. */
export async function makeEtc(etc: string, { network }: { network: "own" | "host" }): Promise<void> {
  await mkdir(etc, { recursive: true, mode: 0o755 });
  for (const name of await etcFolders()) await mkdir(join(etc, name), { recursive: true, mode: 0o755 });
  for (const name of ETC_FILES) await copyEntry(name, join(etc, name));
  const resolver = network === "host" ? await readFile("/etc/resolv.conf", "utf8").catch(() => "") : "";
  for (const [name, text] of Object.entries({ ...ETC_TEXTS, "resolv.conf": resolver })) {
    await writeFile(join(etc, name), text, { mode: 0o644 });
  }
}

/** A text that changes when `makeEtc` would make other files for a sandbox with a network of its own. */
async function etcState(): Promise<string> {
  const files = await Promise.all(
    ETC_FILES.map(async (name) => {
      const found = await lstat(join("/etc", name)).catch(() => undefined);
      return found === undefined ? [] : [name, found.ino, found.size, found.mtimeMs];
    }),
  );
  return JSON.stringify([files, await etcFolders(), ETC_TEXTS]);
}

const ETC_TEXTS: Readonly<Record<string, string>> = {
  passwd:
    "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/home/user:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
  group: "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n",
  hosts: "127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost\n",
  hostname: "sandbox\n",
  "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n",
};

/** Copies a file. A link into the system stays a link, because programs read the time zone from its target. */
async function copyEntry(name: string, to: string): Promise<void> {
  const from = join("/etc", name);
  const found = await lstat(from).catch(() => undefined);
  if (found === undefined || (await lstat(to).catch(() => undefined)) !== undefined) return;
  await mkdir(dirname(to), { recursive: true, mode: 0o755 });
  const target = found.isSymbolicLink() ? posix.resolve(dirname(from), await readlink(from)) : undefined;
  if (target !== undefined && isOfSystem(target)) return symlink(target, to);
  await copyFile(from, to).catch(() => {});
}

const making = new Map<string, Promise<string>>();

/**
 * The /etc, in memory, that all sandboxes of this user share if they have networks of their own. When the host's /etc
 * changes, the next caller makes a new one under another name. Undefined without a memory folder, or without space in
 * it.
 */
export async function findSharedEtc(
  folder: string | undefined = findMemoryFolder(),
): Promise<string | undefined> {
  if (folder === undefined) return undefined;
  const path = join(folder, `sluice-etc-${process.geteuid?.()}-${toKey(await etcState())}`);
  const work = making.get(path) ?? makeShared(folder, path);
  making.set(path, work);
  return work.finally(() => making.delete(path)).catch(() => undefined);
}

async function makeShared(folder: string, path: string): Promise<string> {
  if (isOurs(path)) return path;
  const unfinished = mkdtempSync(join(folder, ".sluice-etc-"));
  await makeEtc(unfinished, { network: "own" });
  await chmod(unfinished, 0o755);
  // A rename publishes all files at once. It fails if another server was faster.
  await rename(unfinished, path).catch(() => rm(unfinished, { recursive: true, force: true }));
  if (isOurs(path)) return path;
  throw new Error(`${path} belongs to another user; remove it`);
}

/** Whether only this user can have written it. */
function isOurs(path: string): boolean {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return false;
  return found.isDirectory() && found.uid === process.geteuid?.() && (found.mode & 0o022) === 0;
}

const MEMORY_FOLDER = "/dev/shm";
const TMPFS = 0x01021994;

let memoryFolder: string | null | undefined;

/** A folder in memory, if this host has one. A file there takes a tenth of the time of a file on a disk. */
export function findMemoryFolder(): string | undefined {
  memoryFolder ??= isUsable() ? MEMORY_FOLDER : null;
  return memoryFolder ?? undefined;
}

function isUsable(): boolean {
  try {
    accessSync(MEMORY_FOLDER, constants.W_OK | constants.X_OK);
    return statfsSync(MEMORY_FOLDER).type === TMPFS;
  } catch {
    return false;
  }
}
