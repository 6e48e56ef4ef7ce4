import { lstat, readFile, readlink } from "node:fs/promises";

/** The host's programs and libraries, and what they look up in /etc. Nothing else of the host is there. */
const FOLDERS = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"];

const SETTINGS = [
  "/etc/alternatives",
  "/etc/ca-certificates",
  "/etc/ca-certificates.conf",
  "/etc/debian_version",
  "/etc/fonts",
  "/etc/ld.so.cache",
  "/etc/ld.so.conf",
  "/etc/ld.so.conf.d",
  "/etc/locale.alias",
  "/etc/localtime",
  "/etc/magic",
  "/etc/mime.types",
  "/etc/os-release",
  "/etc/pki/ca-trust",
  "/etc/pki/tls/cert.pem",
  "/etc/pki/tls/certs",
  "/etc/protocols",
  "/etc/services",
  "/etc/ssl/cert.pem",
  "/etc/ssl/certs",
  "/etc/ssl/openssl.cnf",
  "/etc/terminfo",
  "/etc/timezone",
];

/** Settings and triggers of the host's kernel, and what its root alone may read. */
const READ_ONLY = ["/proc/sys", "/proc/fs"];
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

let known: Promise<string[]> | undefined;
let covers: Promise<string[]> | undefined;

/** bwrap's options for the system, read-only. */
export function systemMounts(): Promise<string[]> {
  known ??= readMounts();
  return known;
}

/**
 * Over /proc, whose own guard is the user id alone: where the agent's user is the host's root, as in a directory of
 * root's, it could write the host's settings without any capability, and bwrap covers only what it finds writable.
 */
export function procCovers(): Promise<string[]> {
  covers ??= readCovers();
  return covers;
}

/** What stands in /etc of every sandbox, by name. */
export async function systemFiles(network: "own" | "host"): Promise<Record<string, string>> {
  const resolver = network === "host" ? await readFile("/etc/resolv.conf", "utf8").catch(() => "") : "";
  return {
    passwd: [
      "root:x:0:0:root:/root:/bin/sh",
      "user:x:1000:1000:user:/home/user:/bin/sh",
      "nobody:x:65534:65534:nobody:/:/bin/false",
      "",
    ].join("\n"),
    group: "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n",
    hosts: "127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost\n",
    hostname: "sandbox\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n",
    "resolv.conf": resolver,
  };
}

/** Whether the sandbox sees this path of the host by the list above. */
export function isOfSystem(path: string): boolean {
  return [...FOLDERS, ...SETTINGS].some((root) => path === root || path.startsWith(`${root}/`));
}

async function readMounts(): Promise<string[]> {
  const args = await Promise.all([...FOLDERS, ...SETTINGS].map(toMount));
  return args.flat();
}

async function readCovers(): Promise<string[]> {
  const exists = async (path: string): Promise<boolean> =>
    (await lstat(path).catch(() => undefined)) !== undefined;
  const cover = async (path: string, args: string[]): Promise<string[]> => ((await exists(path)) ? args : []);
  const args = await Promise.all([
    ...READ_ONLY.map((path) => cover(path, ["--ro-bind", path, path])),
    ...EMPTY_FILES.map((path) => cover(path, ["--ro-bind", "/dev/null", path])),
    ...EMPTY_FOLDERS.map((path) => cover(path, ["--tmpfs", path, "--remount-ro", path])),
  ]);
  return args.flat();
}

async function toMount(path: string): Promise<string[]> {
  const found = await lstat(path).catch(() => undefined);
  if (found === undefined) return [];
  // /bin is a link into /usr on most hosts. One that leads elsewhere, as /etc/localtime may, is followed.
  const target = found.isSymbolicLink() ? await readlink(path) : undefined;
  if (target !== undefined && FOLDERS.includes(path)) return ["--symlink", target, path];
  return ["--ro-bind-try", path, path];
}
