import {
  AF_INET,
  AF_INET6,
  AF_NETLINK,
  AF_UNIX,
  AUDIT_ARCH,
  CLONE,
  CLONE3,
  DENIED,
  EAFNOSUPPORT,
  ENOSYS,
  EOPNOTSUPP,
  EPERM,
  EPROTONOSUPPORT,
  FALLOCATE,
  FREES_SPACE,
  HIGHEST,
  IOCTL,
  MAKES_FILE,
  MODE_CALLS,
  NETLINK_ROUTE,
  NEW_NAMESPACES,
  OPEN_CALLS,
  OPENAT2,
  PRIVILEGE_BITS,
  SOCKET,
  SOCKETPAIR,
  type Machine,
} from "./syscalls.ts";

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
    // Every other family leads around the network namespace (vsock) or into parts of the kernel that no agent needs.
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
