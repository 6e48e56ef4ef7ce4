import { AUDIT_ARCH, CLONE, CLONE3, DENIED, IOCTL } from "./syscalls.ts";

/** The filter of system calls as the kernel takes it (classic BPF), or undefined on a machine that we have no list for. */
export function toSeccompFilter(arch: string = process.arch): Buffer | undefined {
  if (arch !== "x64" && arch !== "arm64") return undefined;
  const program: Instruction[] = [
    load(ARCH_OFFSET),
    ...unless(AUDIT_ARCH[arch], [fail(ENOSYS)]),
    load(NUMBER_OFFSET),
    // The x32 calls have numbers of their own, which no list of ours names.
    ...(arch === "x64" ? [jump(JGE, X32_BIT, 0, 1), fail(ENOSYS)] : []),
    ...Object.values(DENIED[arch]).flatMap((number) => when(number, [fail(EPERM)])),
    // Its flags are behind a pointer that no filter can follow; told that it is missing, libc takes clone.
    ...when(CLONE3, [fail(ENOSYS)]),
    ...when(CLONE[arch], [
      load(argument(0)),
      jump(JSET, NEW_NAMESPACES, 0, 1),
      fail(EPERM),
      give(SECCOMP_RET_ALLOW),
    ]),
    // Both type into a terminal as if its user had.
    ...when(IOCTL[arch], [
      load(argument(1)),
      ...when(TIOCSTI, [fail(EPERM)]),
      ...when(TIOCLINUX, [fail(EPERM)]),
      give(SECCOMP_RET_ALLOW),
    ]),
    give(SECCOMP_RET_ALLOW),
  ];
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

const EPERM = 1;
const ENOSYS = 38;
const SECCOMP_RET_ALLOW = 0x7fff0000;
const SECCOMP_RET_ERRNO = 0x00050000;
const X32_BIT = 0x40000000;
/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. */
const NEW_NAMESPACES = 0x7e020000;
const TIOCSTI = 0x5412;
const TIOCLINUX = 0x541c;

/** In struct seccomp_data. */
const NUMBER_OFFSET = 0;
const ARCH_OFFSET = 4;

const LOAD = 0x20;
const RETURN = 0x06;
const JEQ = 0x15;
const JGE = 0x35;
const JSET = 0x45;

/** The lower half of an argument; both machines are little-endian. */
function argument(index: number): number {
  return 16 + index * 8;
}

function load(offset: number): Instruction {
  return { code: LOAD, yes: 0, no: 0, value: offset };
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
