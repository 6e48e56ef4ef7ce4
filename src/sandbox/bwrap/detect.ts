import { accessSync, constants } from "node:fs";
import { access, mkdir, mkdtemp, readFile, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import type { EgressPrograms } from "../egress/egress.ts";
import { succeeds } from "../host/files/open-file.ts";
import { findOwner, SandboxFolder, type SandboxRecord } from "../host/folder.ts";
import { Enclosure } from "../host/processes/enclosure.ts";
import type { Detected, Owner } from "../port.ts";
import type { BwrapContext } from "./arguments.ts";
import { BwrapSandbox } from "./sandbox.ts";
import { toSeccompFilter } from "./seccomp.ts";
import { SYSTEM_PATH } from "./system.ts";

interface DetectOptions extends ProbeOptions {
  readonly arch?: string;
  /** The folder of the kernel's settings; /proc/sys by default. */
  readonly settings?: string;
}

/** The results, by bwrap's path. Failures are not kept, because the machine may be repaired. */
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

/** A program in the first of these folders that has it. Relative folders are skipped: they could lie in a workspace. */
export function findProgram(name: string, folders: readonly string[]): string | undefined {
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
    if (await succeeds(access(file))) return `${sudo()}${command} ${name}`;
  }
  return `${sudo()}apt-get install ${name} (or your system's package of that name)`;
}

function sudo(): string {
  return process.geteuid?.() === 0 ? "" : "sudo ";
}

interface ProbeOptions {
  /** The parent of the probe's folder where there is no temporary folder. */
  readonly root?: string;
  /** The programs of the egress proxy; those of the build by default. */
  readonly programs?: EgressPrograms | undefined;
}

const PATIENCE_MS = 20_000;

/**
 * Runs a command in a real sandbox, once as each user that sandboxes of this server run as: the user of a private
 * workspace, and the server's own. Returns the failure; undefined where there is none.
 */
async function probeBwrap(bwrap: string, options: ProbeOptions): Promise<string | undefined> {
  const own = await findOwner("probe", undefined);
  const folder = await makeFolder(options.root);
  const users = own === undefined ? [undefined] : [own, undefined];
  const { programs } = options;
  const probes = await Promise.all(
    users.map(async (owner, index) =>
      tryAs(owner, await SandboxFolder.at(folder, `p${index}`), {
        bwrap,
        hide: [folder],
        programs,
        scope: undefined,
      }),
    ),
  );
  // The probes' leftovers are removed while the caller goes on.
  void Promise.allSettled(probes.map(({ sandbox }) => sandbox?.destroy())).then(() =>
    rm(folder, { recursive: true, force: true }).catch(() => {}),
  );
  return probes.find(({ failure }) => failure !== undefined)?.failure;
}

interface Probe {
  readonly sandbox?: BwrapSandbox;
  readonly failure?: string;
}

async function tryAs(owner: Owner | undefined, folder: SandboxFolder, context: BwrapContext): Promise<Probe> {
  let sandbox: BwrapSandbox | undefined;
  try {
    const record: SandboxRecord = {
      version: 1,
      id: `probe-${folder.key}`,
      provider: "bwrap",
      network: { mode: "none" },
      ...(owner === undefined ? {} : { owner }),
      ...(await Enclosure.locate(folder.key, undefined)),
    };
    await folder.make(record);
    sandbox = new BwrapSandbox(folder, record, context);
    const { exitCode, stderr, timedOut } = await sandbox.exec("exec /bin/true", { timeoutMs: PATIENCE_MS });
    if (exitCode === 0) return { sandbox };
    const failure = timedOut ? "it does not answer" : stderr.trim() || `exit code ${exitCode}`;
    return { sandbox, failure };
  } catch (error) {
    return { ...(sandbox && { sandbox }), failure: toMessage(error) };
  }
}

/** The message of the cause, if there is one: bwrap's message says more than the launcher's. */
function toMessage(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return cause instanceof Error ? cause.message : String(cause);
}

async function makeFolder(root: string | undefined): Promise<string> {
  return makeBelow(tmpdir()).catch(async (error: Error) => {
    if (root === undefined) throw error;
    await mkdir(root, { recursive: true, mode: 0o700 });
    return makeBelow(root);
  });
}

async function makeBelow(parent: string): Promise<string> {
  return realpath(await mkdtemp(join(parent, "sluice-probe-")));
}
