export interface ZipEntry {
  readonly path: string;
  readonly content: Uint8Array;
  /** Unix permissions. */
  readonly mode: number;
}

/** A zip archive without compression, for small text files. */
export function toZip(entries: readonly ZipEntry[], time: Date): Uint8Array {
  const locals: Uint8Array[] = [];
  const directory: Uint8Array[] = [];
  let offset = 0;
  for (const { path, content, mode } of entries) {
    const name = Buffer.from(path, "utf8");
    const head = toHead(name, content, time);
    const local = Buffer.concat([Buffer.from("PK\x03\x04", "latin1"), head, name, content]);
    const central = Buffer.alloc(16);
    // The Unix mode, with the bit of a regular file.
    central.writeUInt32LE((0o100000 | mode) * 0x1_0000, 8);
    central.writeUInt32LE(offset, 12);
    directory.push(Buffer.from("PK\x01\x02\x14\x03", "latin1"), head, central.subarray(2), name);
    locals.push(local);
    offset += local.length;
  }
  const size = directory.reduce((sum, part) => sum + part.length, 0);
  const end = Buffer.alloc(18);
  end.writeUInt16LE(entries.length, 4);
  end.writeUInt16LE(entries.length, 6);
  end.writeUInt32LE(size, 8);
  end.writeUInt32LE(offset, 12);
  return Buffer.concat([...locals, ...directory, Buffer.from("PK\x05\x06", "latin1"), end]);
}

/** The fields that an entry and its record in the directory share. */
function toHead(name: Buffer, content: Uint8Array, time: Date): Buffer {
  const head = Buffer.alloc(26);
  head.writeUInt16LE(20, 0);
  // The flag of a name in UTF-8.
  head.writeUInt16LE(0x0800, 2);
  head.writeUInt16LE(toDosTime(time), 6);
  head.writeUInt16LE(toDosDate(time), 8);
  head.writeUInt32LE(crc32(content), 10);
  head.writeUInt32LE(content.length, 14);
  head.writeUInt32LE(content.length, 18);
  head.writeUInt16LE(name.length, 22);
  return head;
}

function toDosTime(time: Date): number {
  return (time.getUTCHours() << 11) | (time.getUTCMinutes() << 5) | (time.getUTCSeconds() >> 1);
}

function toDosDate(time: Date): number {
  return ((time.getUTCFullYear() - 1980) << 9) | ((time.getUTCMonth() + 1) << 5) | time.getUTCDate();
}

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? (value >>> 1) ^ 0xed_b8_83_20 : value >>> 1;
  return value >>> 0;
});

/** `node:zlib` has no `crc32` before Node 22. */
function crc32(bytes: Uint8Array): number {
  let sum = 0xff_ff_ff_ff;
  for (const byte of bytes) sum = (TABLE[(sum ^ byte) & 0xff] ?? 0) ^ (sum >>> 8);
  return (sum ^ 0xff_ff_ff_ff) >>> 0;
}
