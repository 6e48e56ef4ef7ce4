import { access, readFile } from "node:fs/promises";
import { join } from "node:path";

/** Why no sandbox can be made here, and the one command that helps. */
export interface Obstacle {
  readonly reason: string;
  readonly remedy?: string;
}

/** From what bwrap said, and from the kernel's settings. */
export async function toObstacle(
  said: string,
  { bwrap, settings = "/proc/sys" }: { bwrap: string; settings?: string | undefined },
): Promise<Obstacle> {
  const words = said.trim().split("\n")[0] ?? "";
  for (const { setting, blocking, reason, toRemedy } of SETTINGS) {
    const value = await readFile(join(settings, setting.replaceAll(".", "/")), "utf8").catch(() => undefined);
    if (value?.trim() !== blocking) continue;
    return { reason: `${reason}: ${setting} is ${blocking} (${words})`, remedy: toRemedy(bwrap) };
  }
  if (/mount proc/.test(words)) {
    const reason = `a part of /proc is covered here, as in most containers, so no sandbox can have its own (${words})`;
    return { reason, remedy: UNMASKED };
  }
  if (/new namespace|namespaces? (?:is|are) not|unshare|clone/i.test(words)) {
    const reason = `this user may make no namespaces here, as in most containers (${words})`;
    return { reason, remedy: UNCONFINED };
  }
  return { reason: `bubblewrap cannot make a sandbox here: ${words}` };
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

/** A profile for bwrap alone: the restriction stays for every other program. */
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

export async function toInstallCommand(name: string): Promise<string> {
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
