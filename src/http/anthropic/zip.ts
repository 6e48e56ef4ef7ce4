import { crc32 } from "./crc32.ts";

export interface ZipEntry {
  /** With `/` between its parts. */
  readonly path: string;
  readonly content: Uint8Array;
  /** Who may do what with it, as Unix says it. */
  readonly mode: number;
}

/** A zip archive of stored entries: small text files, for which nothing is gained by packing them. */
export function toZip(entries: readonly ZipEntry[], time: Date): Uint8Array {
  const locals: Uint8Array[] = [];
  const directory: Uint8Array[] = [];
  let offset = 0;
  for (const { path, content, mode } of entries) {
    const name = Buffer.from(path, "utf8");
    const head = toHead(name, content, time);
    const local = Buffer.concat([Buffer.from("PK\x03\x04", "latin1"), head, name, content]);
    const central = Buffer.alloc(16);
    // A regular file.
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

/** The fields that stand before each content and again in the directory. */
function toHead(name: Buffer, content: Uint8Array, time: Date): Buffer {
  const head = Buffer.alloc(26);
  head.writeUInt16LE(20, 0);
  // The name is UTF-8.
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
