import { execFile } from "node:child_process";
import { access, constants } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { promisify } from "node:util";
import { stat } from "../../disk/sync-files.ts";
import { succeeds } from "../host/files/open-file.ts";
import { hasRight } from "../host/files/open-folder.ts";
import { isInside } from "../host/files/paths.ts";
import type { SandboxRecord } from "../host/folder.ts";
import { toUnlimited } from "../host/processes/enclosure.ts";
import type { Owner } from "../port.ts";

/** The command prefix that changes from root to this user. */
export function toDropPrefix({ uid, gid }: Owner): string[] {
  return ["setpriv", "--reuid", String(uid), "--regid", String(gid), "--clear-groups"];
}

/**
 * The command prefix for limits that no control group enforces. It runs inside, where the kernel counts only the
 * processes of this sandbox. It limits memory by `data` and not by `as`, because a runtime reserves many more addresses
 * than it uses.
 */
export function toRlimitPrefix(record: SandboxRecord): string[] {
  const { memoryBytes, processes, diskBytes } = record.limits ?? {};
  const missing = new Set(toUnlimited(record));
  const limits = [
    ...(missing.has("memoryBytes") ? [`--data=${memoryBytes}`] : []),
    ...(missing.has("processes") ? [`--nproc=${processes}`] : []),
    ...(diskBytes === undefined ? [] : [`--fsize=${diskBytes}`]),
  ];
  return limits.length === 0 ? [] : ["prlimit", ...limits, "--"];
}

/** Bind mounts that make folders of the server reachable for a user without access to their parents. */
export interface PrivateMounts {
  /** The prefix of the command; it has to run as root. */
  readonly prefix: readonly string[];
  /** The path at which the command finds a path of the host. */
  at(path: string): string;
}

/** Mounts the paths in a mount namespace of the command's own. The mounts end with the command. */
const SCRIPT = `target=$1 count=$2 i=0
shift 2
if [ "$count" = 1 ] && [ -d "$1" ]; then
  mount --rbind "$1" "$target" || exit 125
  shift
  exec "$@"
fi
mount -t tmpfs -o mode=755,size=64k sluice "$target" || exit 125
while [ "$i" -lt "$count" ]; do
  if [ -d "$1" ]; then mkdir "$target/$i"; else : > "$target/$i"; fi
  mount --rbind "$1" "$target/$i" || exit 125
  shift
  i=$((i + 1))
done
exec "$@"`;

/** Folders that every distribution has, usually empty. Only the command sees the mount on one of them. */
const TARGETS = ["/mnt", "/media", "/srv", "/opt"];

export async function findPrivateMounts(
  paths: readonly string[],
  owner: Owner | undefined,
): Promise<PrivateMounts> {
  const closed: string[] = [];
  for (const path of owner === undefined ? [] : withoutNested(paths)) {
    if (!(await isReachable(path, owner as Owner))) closed.push(path);
  }
  if (closed.length === 0) return { prefix: [], at: (path) => path };
  const target = await findTarget(paths);
  // A single folder is mounted on the target itself, which saves the start of two programs.
  const isSingleFolder = closed.length === 1 && (await stat(closed[0] as string)).isDirectory();
  const unshare = ["unshare", "--mount", "--propagation", "private"];
  return {
    prefix: [...unshare, "/bin/sh", "-c", SCRIPT, "sh", target, String(closed.length), ...closed],
    at(path) {
      const index = closed.findIndex((root) => isInside(path, root));
      return index < 0
        ? path
        : join(target, isSingleFolder ? "" : String(index), relative(closed[index] as string, path));
    },
  };
}

async function findTarget(paths: readonly string[]): Promise<string> {
  for (const target of TARGETS) {
    const found = await stat(target).catch(() => undefined);
    if (found?.isDirectory() && !paths.some((path) => isInside(path, target))) return target;
  }
  return "/tmp";
}

async function isReachable(path: string, owner: Owner): Promise<boolean> {
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    if (!hasRight(await stat(folder), owner, 1)) return false;
    if (folder === dirname(folder)) return true;
  }
}

function withoutNested(paths: readonly string[]): string[] {
  return [...new Set(paths)].filter(
    (path) => !paths.some((other) => other !== path && isInside(path, other)),
  );
}

const run = promisify(execFile);

/** The first version of Landlock that can block abstract UNIX sockets; Linux 6.12 has it. */
const LEAST_LANDLOCK = 6;
const SCOPE_ABSTRACT_UNIX_SOCKET = 1;
const CREATE_RULESET = 444;
const RESTRICT_SELF = 446;
const PRCTL = { x64: 157, arm64: 167 } as const;
const NO_NEW_PRIVS = 38;

const PERL = `$abi = syscall(${CREATE_RULESET}, 0, 0, 1);
if ($ARGV[0] eq "version") { print "$abi\\n"; exit 0 }
$rules = pack("QQQ", 0, 0, ${SCOPE_ABSTRACT_UNIX_SOCKET});
syscall($ARGV[1], ${NO_NEW_PRIVS}, 1, 0, 0, 0) == 0 or die "no_new_privs: $!\\n";
$fd = syscall(${CREATE_RULESET}, $rules, 24, 0);
$fd >= 0 or die "landlock: $!\\n";
syscall(${RESTRICT_SELF}, $fd, 0) == 0 or die "landlock: $!\\n";
syscall(SYS_close(), $fd);
shift; shift;
exec { $ARGV[0] } @ARGV or die "$ARGV[0]: $!\\n";
sub SYS_close { $ARGV[1] == ${PRCTL.x64} ? 3 : 57 }`;

const PYTHON = `import ctypes, os, struct, sys
call = ctypes.CDLL(None, use_errno=True).syscall
abi = call(${CREATE_RULESET}, None, 0, 1)
if sys.argv[1] == "version":
    print(abi)
    sys.exit(0)
def demand(result, what):
    if result < 0:
        sys.exit(what + ": " + os.strerror(ctypes.get_errno()))
    return result
demand(call(int(sys.argv[2]), ${NO_NEW_PRIVS}, 1, 0, 0, 0), "no_new_privs")
fd = demand(call(${CREATE_RULESET}, struct.pack("QQQ", 0, 0, ${SCOPE_ABSTRACT_UNIX_SOCKET}), 24, 0), "landlock")
demand(call(${RESTRICT_SELF}, fd, 0), "landlock")
os.close(fd)
os.execvp(sys.argv[3], sys.argv[3:])`;

/** Both can make any system call, and every distribution has one of them. */
const INTERPRETERS = [
  { program: "/usr/bin/perl", args: ["-e", PERL] },
  { program: "/usr/bin/python3", args: ["-I", "-S", "-c", PYTHON] },
] as const;

let found: Promise<readonly string[] | undefined> | undefined;

/**
 * The command prefix that blocks the host's abstract UNIX sockets for a bwrap in the host's network. Undefined where
 * this host cannot block them; then no process inside may make UNIX sockets.
 */
export function findScopePrefix(bwrap: string): Promise<readonly string[] | undefined> {
  found ??= find(bwrap);
  return found;
}

async function find(bwrap: string): Promise<readonly string[] | undefined> {
  const { arch } = process;
  if (arch !== "x64" && arch !== "arm64") return undefined;
  // The prefix sets no_new_privs, which takes the setuid bit's effect from bwrap.
  const isSetuid = (((await stat(bwrap).catch(() => undefined))?.mode ?? 0) & 0o4000) !== 0;
  if (isSetuid && process.geteuid?.() !== 0) return undefined;
  for (const { program, args } of INTERPRETERS) {
    const prefix = [program, ...args, "exec", String(PRCTL[arch])];
    if ((await readLandlockVersion(program, args)) >= LEAST_LANDLOCK && (await works(prefix))) return prefix;
  }
  return undefined;
}

async function readLandlockVersion(program: string, args: readonly string[]): Promise<number> {
  if (!(await succeeds(access(program, constants.X_OK)))) return 0;
  const options = { env: {}, cwd: "/", timeout: 10_000 };
  const answer = await run(program, [...args, "version"], options).catch(() => ({ stdout: "" }));
  return Number(answer.stdout.trim()) || 0;
}

async function works([program = "", ...args]: readonly string[]): Promise<boolean> {
  return succeeds(run(program, [...args, "/bin/true"], { env: {}, cwd: "/", timeout: 10_000 }));
}
