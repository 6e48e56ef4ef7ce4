/** The input of a seccomp filter: a system call. */
export interface SystemCall {
  readonly arch: number;
  readonly number: number;
  readonly args?: readonly (number | bigint)[];
}

/** Runs classic BPF as the kernel does, and fails where the kernel would refuse the program. */
export function runFilter(filter: Buffer, call: SystemCall): { errno: number } | "allow" {
  const data = toSeccompData(call);
  const count = filter.length / 8;
  if (!Number.isInteger(count) || count === 0 || count > 4_096) throw new Error(`${count} instructions`);
  let accumulator = 0;
  for (let at = 0; at < count;) {
    const code = filter.readUInt16LE(at * 8);
    const yes = filter.readUInt8(at * 8 + 2);
    const no = filter.readUInt8(at * 8 + 3);
    const value = filter.readUInt32LE(at * 8 + 4);
    at += 1;
    if (code === 0x06) return toAnswer(value);
    if (code === 0x20) {
      if (value % 4 !== 0 || value > 60) throw new Error(`load of ${value}`);
      accumulator = data.readUInt32LE(value);
    } else if (code === 0x54) accumulator = (accumulator & value) >>> 0;
    else if (code === 0x15) at += accumulator === value ? yes : no;
    else if (code === 0x25) at += accumulator > value ? yes : no;
    else if (code === 0x45) at += (accumulator & value) !== 0 ? yes : no;
    else throw new Error(`unknown instruction ${code}`);
  }
  throw new Error("ran past the end");
}

function toSeccompData({ arch, number, args = [] }: SystemCall): Buffer {
  const data = Buffer.alloc(64);
  data.writeUInt32LE(number >>> 0, 0);
  data.writeUInt32LE(arch >>> 0, 4);
  for (const [index, arg] of args.entries()) {
    data.writeBigUInt64LE(BigInt.asUintN(64, BigInt(arg)), 16 + index * 8);
  }
  return data;
}

function toAnswer(value: number): { errno: number } | "allow" {
  if (value === 0x7fff0000) return "allow";
  if (value >>> 16 === 0x0005) return { errno: value & 0xffff };
  throw new Error(`unknown answer ${value.toString(16)}`);
}
