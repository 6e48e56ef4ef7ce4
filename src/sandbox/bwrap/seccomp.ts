interface FilterOptions {
  readonly arch?: string;
  /** Whether `socket` may make UNIX sockets; `socketpair` always may. */
  readonly unixSockets?: boolean;
}

/** The filter of system calls in the kernel's format (classic BPF); undefined for a machine without a list of calls. */
export function toSeccompFilter({ arch = process.arch, unixSockets = true }: FilterOptions = {}):
  | Buffer
  | undefined {
  if (arch !== "x64" && arch !== "arm64") return undefined;
  const key = `${arch} ${unixSockets}`;
  const made = known.get(key) ?? toBytes(toProgram(arch, unixSockets));
  known.set(key, made);
  return made;
}

const known = new Map<string, Buffer>();

/** Each block ends in a return, so no jump is longer than its block. Frequent calls come first. */
function toProgram(arch: Machine, unixSockets: boolean): Instruction[] {
  const families = [...(unixSockets ? [AF_UNIX] : []), AF_INET, AF_INET6];
  return [
    load(ARCH_OFFSET),
    ...unless(AUDIT_ARCH[arch], [fail(ENOSYS)]),
    load(NUMBER_OFFSET),
    // Calls that are newer than the list, and those of x32, whose numbers are higher.
    jump(JGT, HIGHEST, 0, 1),
    fail(ENOSYS),
    ...Object.values(OPEN_CALLS[arch]).flatMap(([number, flags]) =>
      when(number, [
        load(argument(flags)),
        jump(JSET, MAKES_FILE, 1, 0),
        give(SECCOMP_RET_ALLOW),
        ...withoutPrivilegeBits(flags + 1),
      ]),
    ),
    // Both ioctls put input into a terminal as if its user had typed it.
    ...when(IOCTL[arch], [
      load(argument(1)),
      ...when(TIOCSTI, [fail(EPERM)]),
      ...when(TIOCLINUX, [fail(EPERM)]),
      give(SECCOMP_RET_ALLOW),
    ]),
    ...when(CLONE[arch], [
      load(argument(0)),
      jump(JSET, NEW_NAMESPACES, 0, 1),
      fail(EPERM),
      give(SECCOMP_RET_ALLOW),
    ]),
    ...when(CLONE3, [fail(ENOSYS)]),
    ...when(OPENAT2, [fail(ENOSYS)]),
    // Every other family leads out of the network namespace (vsock) or into parts of the kernel that no agent needs.
    ...when(SOCKET[arch], [
      load(argument(1)),
      and(SOCK_TYPE_MASK),
      ...when(SOCK_PACKET, [fail(EAFNOSUPPORT)]),
      load(argument(0)),
      ...families.flatMap((family) => when(family, [give(SECCOMP_RET_ALLOW)])),
      ...unless(AF_NETLINK, [fail(EAFNOSUPPORT)]),
      load(argument(2)),
      ...unless(NETLINK_ROUTE, [fail(EPROTONOSUPPORT)]),
      give(SECCOMP_RET_ALLOW),
    ]),
    ...when(SOCKETPAIR[arch], [
      load(argument(0)),
      ...unless(AF_UNIX, [fail(EAFNOSUPPORT)]),
      give(SECCOMP_RET_ALLOW),
    ]),
    ...Object.values(MODE_CALLS[arch]).flatMap(([number, mode]) => when(number, withoutPrivilegeBits(mode))),
    // fallocate can fill a disk in an instant. Ordinary writes take time, so the disk limit stops them.
    ...when(FALLOCATE[arch], [
      load(argument(1)),
      jump(JSET, FREES_SPACE, 1, 0),
      fail(EOPNOTSUPP),
      give(SECCOMP_RET_ALLOW),
    ]),
    ...Object.values(DENIED[arch]).flatMap((number) => when(number, [fail(EPERM)])),
    give(SECCOMP_RET_ALLOW),
  ];
}

/** A setuid file that is made inside would have the same power outside. */
function withoutPrivilegeBits(mode: number): Instruction[] {
  return [load(argument(mode)), jump(JSET, PRIVILEGE_BITS, 0, 1), fail(EPERM), give(SECCOMP_RET_ALLOW)];
}

function toBytes(program: readonly Instruction[]): Buffer {
  const bytes = Buffer.alloc(program.length * 8);
  for (const [index, { code, yes, no, value }] of program.entries()) {
    bytes.writeUInt16LE(code, index * 8);
    bytes.writeUInt8(yes, index * 8 + 2);
    bytes.writeUInt8(no, index * 8 + 3);
    bytes.writeUInt32LE(value >>> 0, index * 8 + 4);
  }
  return bytes;
}

interface Instruction {
  readonly code: number;
  readonly yes: number;
  readonly no: number;
  readonly value: number;
}

const SECCOMP_RET_ALLOW = 0x7fff0000;
const SECCOMP_RET_ERRNO = 0x00050000;
const TIOCSTI = 0x5412;
const TIOCLINUX = 0x541c;
const SOCK_TYPE_MASK = 0xf;
/** The old type of a packet socket. */
const SOCK_PACKET = 10;

/** Offsets in struct seccomp_data. */
const NUMBER_OFFSET = 0;
const ARCH_OFFSET = 4;

const LOAD = 0x20;
const RETURN = 0x06;
const AND = 0x54;
const JEQ = 0x15;
const JGT = 0x25;
const JSET = 0x45;

/** The offset of an argument's lower half; both machines are little-endian. */
function argument(index: number): number {
  return 16 + index * 8;
}

function load(offset: number): Instruction {
  return { code: LOAD, yes: 0, no: 0, value: offset };
}

function and(value: number): Instruction {
  return { code: AND, yes: 0, no: 0, value };
}

function jump(code: number, value: number, yes: number, no: number): Instruction {
  return { code, yes, no, value };
}

function when(value: number, then: readonly Instruction[]): Instruction[] {
  return [jump(JEQ, value, 0, then.length), ...then];
}

function unless(value: number, then: readonly Instruction[]): Instruction[] {
  return [jump(JEQ, value, then.length, 0), ...then];
}

function fail(errno: number): Instruction {
  return give(SECCOMP_RET_ERRNO | errno);
}

function give(value: number): Instruction {
  return { code: RETURN, yes: 0, no: 0, value };
}

/**
 * Calls for debugging, mounting, namespaces and kernel internals: no agent needs them, and they have led out of
 * sandboxes. The list has all calls that Docker denies to a container without capabilities.
 */
export const DENIED: Readonly<Record<Machine, Readonly<Record<string, number>>>> = {
  x64: parseNumbers(`
_sysctl=156 acct=163 add_key=248 bpf=321 chroot=161 clock_adjtime=305 clock_settime=227 create_module=174
delete_module=176 fanotify_init=300 fanotify_mark=301 finit_module=313 fsconfig=431 fsmount=432 fsopen=430
fspick=433 get_kernel_syms=177 get_mempolicy=239 init_module=175 io_uring_enter=426 io_uring_register=427
io_uring_setup=425 ioperm=173 iopl=172 kcmp=312 kexec_file_load=320 kexec_load=246 keyctl=250
lookup_dcookie=212 lsm_set_self_attr=460 mbind=237 migrate_pages=256 mount=165 mount_setattr=442
move_mount=429 move_pages=279 nfsservctl=180 open_by_handle_at=304 open_tree=428 open_tree_attr=467
perf_event_open=298 pidfd_getfd=438 pivot_root=155 process_madvise=440 process_vm_readv=310
process_vm_writev=311 ptrace=101 query_module=178 quotactl=179 quotactl_fd=443 reboot=169 request_key=249
set_mempolicy=238 set_mempolicy_home_node=450 setns=308 settimeofday=164 swapoff=168 swapon=167 sysfs=139
syslog=103 umount2=166 unshare=272 uselib=134 userfaultfd=323 ustat=136 vhangup=153
`),
  arm64: parseNumbers(`
acct=89 add_key=217 bpf=280 chroot=51 clock_adjtime=266 clock_settime=112 delete_module=106
fanotify_init=262 fanotify_mark=263 finit_module=273 fsconfig=431 fsmount=432 fsopen=430 fspick=433
get_mempolicy=236 init_module=105 io_uring_enter=426 io_uring_register=427 io_uring_setup=425 kcmp=272
kexec_file_load=294 kexec_load=104 keyctl=219 lookup_dcookie=18 lsm_set_self_attr=460 mbind=235
migrate_pages=238 mount=40 mount_setattr=442 move_mount=429 move_pages=239 nfsservctl=42
open_by_handle_at=265 open_tree=428 open_tree_attr=467 perf_event_open=241 pidfd_getfd=438 pivot_root=41
process_madvise=440 process_vm_readv=270 process_vm_writev=271 ptrace=117 quotactl=60 quotactl_fd=443
reboot=142 request_key=218 set_mempolicy=237 set_mempolicy_home_node=450 setns=268 settimeofday=170
swapoff=225 swapon=224 syslog=116 umount2=39 unshare=97 userfaultfd=282 vhangup=58
`),
};

/** Reads pairs of a call's name and its number. */
function parseNumbers(text: string): Record<string, number> {
  const pairs = text.trim().split(/\s+/);
  return Object.fromEntries(pairs.map((pair) => [pair.split("=")[0], Number(pair.split("=")[1])]));
}

/** Calls that set the mode of a file: the number, and the index of the mode argument. */
export const MODE_CALLS = {
  x64: {
    chmod: [90, 1],
    creat: [85, 1],
    fchmod: [91, 1],
    fchmodat: [268, 2],
    fchmodat2: [452, 2],
    mknod: [133, 1],
    mknodat: [259, 2],
  },
  arm64: { fchmod: [52, 1], fchmodat: [53, 2], fchmodat2: [452, 2], mknodat: [33, 2] },
} as const satisfies Record<Machine, Record<string, readonly [number, number]>>;

/** Calls that use a mode only when they make a file: the number, and the index of the flags. The mode is the next. */
export const OPEN_CALLS = {
  x64: { openat: [257, 2], open: [2, 1] },
  arm64: { openat: [56, 2] },
} as const satisfies Record<Machine, Record<string, readonly [number, number]>>;

export const CLONE = { x64: 56, arm64: 220 } as const;
const IOCTL = { x64: 16, arm64: 29 } as const;
const SOCKET = { x64: 41, arm64: 198 } as const;
const SOCKETPAIR = { x64: 53, arm64: 199 } as const;
const FALLOCATE = { x64: 285, arm64: 47 } as const;
/** These two take a pointer to their arguments, which a filter cannot read. Without them libc uses the old calls. */
export const CLONE3 = 435;
const OPENAT2 = 437;
/** The newest reviewed call, file_setattr of Linux 6.17. Later ones are reported as missing. */
const HIGHEST = 469;
/** The kernel's number of an architecture in a filter. */
const AUDIT_ARCH = { x64: 0xc000003e, arm64: 0xc00000b7 } as const;

// Argument values, equal on both machines.
/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. */
export const NEW_NAMESPACES = 0x7e020000;
export const AF_UNIX = 1;
export const AF_INET = 2;
export const AF_INET6 = 10;
export const AF_NETLINK = 16;
export const NETLINK_ROUTE = 0;
/** S_ISUID and S_ISGID. */
export const PRIVILEGE_BITS = 0o6000;
/** O_CREAT, and the bit of O_TMPFILE that is not O_DIRECTORY. */
export const MAKES_FILE = 0o100 | 0o20000000;
/** FALLOC_FL_PUNCH_HOLE and FALLOC_FL_COLLAPSE_RANGE. */
export const FREES_SPACE = 0x02 | 0x08;
export const EPERM = 1;
export const ENOSYS = 38;
const EPROTONOSUPPORT = 93;
export const EOPNOTSUPP = 95;
const EAFNOSUPPORT = 97;

export type Machine = "x64" | "arm64";
