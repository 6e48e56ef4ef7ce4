import { execFile } from "node:child_process";
import { access, constants, stat } from "node:fs/promises";
import { promisify } from "node:util";

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
  const isRunnable = await access(program, constants.X_OK).then(
    () => true,
    () => false,
  );
  if (!isRunnable) return 0;
  const options = { env: {}, cwd: "/", timeout: 10_000 };
  const answer = await run(program, [...args, "version"], options).catch(() => ({ stdout: "" }));
  return Number(answer.stdout.trim()) || 0;
}

async function works([program = "", ...args]: readonly string[]): Promise<boolean> {
  return run(program, [...args, "/bin/true"], { env: {}, cwd: "/", timeout: 10_000 }).then(
    () => true,
    () => false,
  );
}
