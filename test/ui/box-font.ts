/**
 * A font of one glyph: every character is the same box, half as wide as it is high. Pictures of a page in it are the same
 * on machines with other fonts, and show alignment and overflow as well as words do.
 */
export function createBoxFont(): Buffer {
  const tables: readonly (readonly [string, Buffer])[] = [
    ["OS/2", os2()],
    ["cmap", cmap()],
    ["glyf", glyf()],
    ["head", head()],
    ["hhea", hhea()],
    ["hmtx", u16(500, 0, 500, 50)],
    ["loca", u16(0, 0, GLYPH_BYTES / 2)],
    ["maxp", Buffer.concat([u32(0x10000), u16(2, 4, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0)])],
    ["name", name()],
    ["post", Buffer.concat([u32(0x30000, 0), u16(0, 50), u32(0, 0, 0, 0, 0)])],
  ];
  let offset = 12 + 16 * tables.length;
  const rows: Buffer[] = [];
  const bodies: Buffer[] = [];
  for (const [tag, body] of tables) {
    const padded = Buffer.concat([body, Buffer.alloc((4 - (body.length % 4)) % 4)]);
    rows.push(Buffer.from(tag), u32(sumOf(padded), offset, body.length));
    bodies.push(padded);
    offset += padded.length;
  }
  return Buffer.concat([u32(0x10000), u16(tables.length, 128, 3, 32), ...rows, ...bodies]);
}

const GLYPH_BYTES = 36;
const [TOP, BOTTOM] = [700, 0];

/** Glyph 0 is empty; glyph 1 is the box. */
function glyf(): Buffer {
  const points = Buffer.concat([
    u16(1, 50, BOTTOM, 450, TOP, 3, 0),
    Buffer.from([1, 1, 1, 1]),
    // Differences of x, then of y.
    u16(50, 400, 0, -400),
    u16(BOTTOM, 0, TOP, 0),
  ]);
  return Buffer.concat([points, Buffer.alloc(GLYPH_BYTES - points.length)]);
}

/** Format 13: all characters of a range are one glyph. */
function cmap(): Buffer {
  const groups = u32(0x21, 0x10ffff, 1);
  const table = Buffer.concat([u16(13, 0), u32(16 + groups.length, 0, 1), groups]);
  return Buffer.concat([u16(0, 1, 3, 10), u32(12), table]);
}

function head(): Buffer {
  return Buffer.concat([
    u32(0x10000, 0x10000, 0, 0x5f0f3cf5),
    u16(3, 1000),
    Buffer.alloc(16),
    u16(50, BOTTOM, 450, TOP, 0, 8, 2, 0, 0),
  ]);
}

function hhea(): Buffer {
  return Buffer.concat([u32(0x10000), u16(800, -200, 0, 500, 50, 50, 450, 1, 0, 0, 0, 0, 0, 0, 0, 2)]);
}

function os2(): Buffer {
  return Buffer.concat([
    u16(4, 500, 400, 5, 0, 650, 600, 0, 75, 650, 600, 0, 350, 50, 300, 0),
    Buffer.alloc(10),
    u32(0, 0, 0, 0),
    Buffer.from("SLCE"),
    u16(0x40, 0x21, 0xffff, 800, -200, 0, 800, 200),
    u32(1, 0),
    u16(500, 700, 0, 0x20, 1),
  ]);
}

function name(): Buffer {
  const text = Buffer.from("Box", "utf16le").swap16();
  const ids = [1, 2, 4, 6];
  const rows = ids.map((id) => u16(3, 1, 0x409, id, text.length, 0));
  return Buffer.concat([u16(0, ids.length, 6 + 12 * ids.length), ...rows, text]);
}

function u16(...values: number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 2);
  values.forEach((value, index) => bytes.writeUInt16BE(value & 0xffff, index * 2));
  return bytes;
}

function u32(...values: number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 4);
  values.forEach((value, index) => bytes.writeUInt32BE(value >>> 0, index * 4));
  return bytes;
}

function sumOf(bytes: Buffer): number {
  let sum = 0;
  for (let at = 0; at < bytes.length; at += 4) sum = (sum + bytes.readUInt32BE(at)) >>> 0;
  return sum;
}
