import { accessSync, constants } from "node:fs";
import { access, readFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import type { Detected } from "../port.ts";
import { probeBwrap, type ProbeOptions } from "./probe.ts";
import { toSeccompFilter } from "./seccomp.ts";
import { SYSTEM_PATH } from "./system.ts";

interface DetectOptions extends ProbeOptions {
  readonly arch?: string;
  /** The folder of the kernel's settings; /proc/sys by default. */
  readonly settings?: string;
}

/** Results by bwrap's path. Only successes stay: after a failure the machine may be repaired. */
const tried = new Map<string, Promise<Detected>>();

/** Whether bwrap can be the default here: it runs a command, and it has a filter of system calls. */
export async function detectBwrap(bwrap: string | undefined, options: DetectOptions = {}): Promise<Detected> {
  const { arch = process.arch } = options;
  if (process.platform === "linux" && toSeccompFilter({ arch }) === undefined)
    return unavailable(
      `there is no filter of system calls for ${arch}; bwrap has to be named to be used without one`,
    );
  return tryBwrap(bwrap, options);
}

/** Whether bwrap runs a command in a real sandbox; tried once per server. A failure comes with its remedy. */
export function tryBwrap(bwrap: string | undefined, options: DetectOptions = {}): Promise<Detected> {
  if (process.platform !== "linux") return Promise.resolve(unavailable("bubblewrap needs Linux"));
  if (bwrap === undefined) return notInstalled("bubblewrap is not installed", "bubblewrap");
  const known = tried.get(bwrap);
  if (known !== undefined) return known;
  const result = tryOnce(bwrap, options);
  tried.set(bwrap, result);
  const forget = (): boolean => tried.delete(bwrap);
  result.then(({ available }) => available || forget(), forget);
  return result;
}

async function tryOnce(bwrap: string, options: DetectOptions): Promise<Detected> {
  for (const program of ["nsenter", "setpriv", "unshare", "prlimit"]) {
    if (findProgram(program, SYSTEM_PATH) === undefined)
      return notInstalled(`${program} is missing`, "util-linux");
  }
  const message = await probeBwrap(bwrap, options).catch((error: Error) => error.message);
  if (message === undefined) return { available: true };
  return { available: false, ...(await explainObstacle(message, { bwrap, settings: options.settings })) };
}

/** The path of bwrap; undefined where it is not installed. */
export async function findBwrap(): Promise<string | undefined> {
  return findProgram("bwrap", [...(process.env["PATH"] ?? "").split(delimiter), ...SYSTEM_PATH]);
}

/** The paths of found programs, remembered because every session asks for bwrap and a search takes long. */
const found = new Map<string, string>();

function findProgram(name: string, folders: readonly string[]): string | undefined {
  const search = [name, ...folders].join(delimiter);
  const known = found.get(search);
  if (known !== undefined && isRunnable(known)) return known;
  for (const folder of folders) {
    const file = join(folder, name);
    if (!folder.startsWith("/") || !isRunnable(file)) continue;
    found.set(search, file);
    return file;
  }
  return undefined;
}

/** Synchronous, because this check takes less time than the way to Node's thread pool and back. */
function isRunnable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

async function notInstalled(reason: string, name: string): Promise<Detected> {
  return { available: false, reason, remedy: await findInstallCommand(name) };
}

function unavailable(reason: string): Detected {
  return { available: false, reason };
}

/** The reason why no sandbox can be made here, and its remedy. */
interface Obstacle {
  readonly reason: string;
  readonly remedy?: string;
}

/** Explains bwrap's message by the kernel's settings. */
async function explainObstacle(
  message: string,
  { bwrap, settings = "/proc/sys" }: { bwrap: string; settings?: string | undefined },
): Promise<Obstacle> {
  const firstLine = message.trim().split("\n")[0] ?? "";
  for (const { setting, blocking, reason, toRemedy } of SETTINGS) {
    const value = await readFile(join(settings, setting.replaceAll(".", "/")), "utf8").catch(() => undefined);
    if (value?.trim() !== blocking) continue;
    return { reason: `${reason}: ${setting} is ${blocking} (${firstLine})`, remedy: toRemedy(bwrap) };
  }
  if (/mount proc/.test(firstLine)) {
    const reason = `a part of /proc is covered here, as in most containers, so no sandbox can have its own (${firstLine})`;
    return { reason, remedy: UNMASKED };
  }
  if (/new namespace|namespaces? (?:is|are) not|unshare|clone/i.test(firstLine)) {
    const reason = `this user may make no namespaces here, as in most containers (${firstLine})`;
    return { reason, remedy: UNCONFINED };
  }
  return { reason: `bubblewrap cannot make a sandbox here: ${firstLine}` };
}

const UNMASKED =
  "docker run --security-opt systempaths=unconfined … (in Kubernetes: securityContext.procMount: Unmasked with hostUsers: false)";
const UNCONFINED =
  "docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined … for the container that sluice runs in";

interface Setting {
  readonly setting: string;
  readonly blocking: string;
  readonly reason: string;
  toRemedy(bwrap: string): string;
}

const SETTINGS: readonly Setting[] = [
  {
    setting: "kernel.unprivileged_userns_clone",
    blocking: "0",
    reason: "this kernel lets only root make user namespaces",
    toRemedy: () =>
      `${sudo()}sysctl -w kernel.unprivileged_userns_clone=1 (every user of this machine may make user namespaces then)`,
  },
  {
    setting: "user.max_user_namespaces",
    blocking: "0",
    reason: "this kernel makes no user namespaces",
    toRemedy: () =>
      `${sudo()}sysctl -w user.max_user_namespaces=15000 (every user of this machine may make user namespaces then)`,
  },
  {
    setting: "kernel.apparmor_restrict_unprivileged_userns",
    blocking: "1",
    reason: "AppArmor lets no program make user namespaces that has no profile",
    toRemedy: toProfileCommand,
  },
];

/** Installs a profile for bwrap alone: the restriction stays for every other program. */
function toProfileCommand(bwrap: string): string {
  const lines = [
    "abi <abi/4.0>,",
    "include <tunables/global>",
    `profile bwrap ${bwrap} flags=(unconfined) {`,
    "  userns,",
    "  include if exists <local/bwrap>",
    "}",
  ];
  const file = "/etc/apparmor.d/bwrap";
  const profile = lines.map((line) => `'${line}'`).join(" ");
  return `printf '%s\\n' ${profile} | ${sudo()}tee ${file} && ${sudo()}apparmor_parser -r ${file}`;
}

const PACKAGERS = [
  ["/usr/bin/apt-get", "apt-get install"],
  ["/usr/bin/dnf", "dnf install"],
  ["/sbin/apk", "apk add"],
  ["/usr/bin/pacman", "pacman -S"],
  ["/usr/bin/zypper", "zypper install"],
] as const;

async function findInstallCommand(name: string): Promise<string> {
  for (const [file, command] of PACKAGERS) {
    const isThere = await access(file).then(
      () => true,
      () => false,
    );
    if (isThere) return `${sudo()}${command} ${name}`;
  }
  return `${sudo()}apt-get install ${name} (or your system's package of that name)`;
}

function sudo(): string {
  return process.geteuid?.() === 0 ? "" : "sudo ";
}
