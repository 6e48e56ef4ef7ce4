import { open } from "node:fs/promises";
import { SluiceError } from "../../contract/index.ts";

export interface TarEntry {
  /** Relative, without `.` or `..`. */
  readonly path: string;
  /** The position of its bytes in the archive; absent for a folder. */
  readonly content?: { readonly start: number; readonly size: number };
}

/** An archive that is read piece by piece. */
export interface TarArchive {
  readonly length: number;
  read(start: number, size: number): Promise<Uint8Array>;
}

export async function parseTarFile(path: string): Promise<TarEntry[]> {
  const handle = await open(path);
  try {
    const { size: length } = await handle.stat();
    let window: Uint8Array = new Uint8Array(0);
    let windowStart = 0;
    const read: TarArchive["read"] = async (start, size) => {
      if (start < windowStart || start + size > windowStart + window.length) {
        const ahead = Math.max(size, WINDOW);
        const { buffer, bytesRead } = await handle.read(Buffer.alloc(ahead), 0, ahead, start);
        [window, windowStart] = [buffer.subarray(0, bytesRead), start];
      }
      return window.subarray(start - windowStart, start - windowStart + size);
    };
    return await parseTar({ length, read });
  } finally {
    await handle.close();
  }
}

/**
 * The files and folders of a ustar, pax or GNU archive. All headers are checked first: an entry that could lead outside
 * (a link, a device, `..`, an absolute path) refuses the archive as a whole.
 */
export async function parseTar(archive: TarArchive): Promise<TarEntry[]> {
  const entries: TarEntry[] = [];
  let longName: string | undefined;
  let paxSize: number | undefined;
  let offset = 0;
  while (offset < archive.length) {
    const header = await archive.read(offset, BLOCK);
    if (header.length < BLOCK) throw refuse(`it ends within a header at byte ${offset}`);
    if (header.every((byte) => byte === 0)) return entries;
    assertChecksum(header, offset);
    const kind = String.fromCharCode(header[156] ?? 0);
    const isMeta = META.has(kind);
    const size = (isMeta ? undefined : paxSize) ?? toNumber(header.subarray(124, 136), offset);
    const start = offset + BLOCK;
    if (start + size > archive.length) throw refuse(`it ends within the entry at byte ${offset}`);
    if (isMeta && size > MAX_META) throw refuse(`the names at byte ${offset} are longer than any path`);
    offset = start + Math.ceil(size / BLOCK) * BLOCK;

    if (kind === "L") longName = toText(await archive.read(start, size));
    else if (kind === "x") {
      const records = parsePax(await archive.read(start, size));
      longName = records.get("path") ?? longName;
      paxSize = records.has("size") ? Number(records.get("size")) : paxSize;
    }
    if (isMeta) continue;
    const path = toSafePath(longName ?? toName(header));
    longName = undefined;
    paxSize = undefined;
    if (kind === "5") {
      if (path !== "") entries.push({ path });
    } else if (FILE.has(kind) && path !== "") entries.push({ path, content: { start, size } });
    else
      throw refuse(
        `${JSON.stringify(path)} is ${KINDS[kind] ?? "of an unknown kind"}; only files and folders are taken`,
      );
  }
  return entries;
}

const BLOCK = 512;
/** Small files lie close together, so one read of this size gets the headers of many. */
const WINDOW = 64 * 1024;
const MAX_META = 1024 * 1024;
const FILE: ReadonlySet<string> = new Set(["0", "\0", "7"]);
/** Long names, and pax records of an entry or of the whole archive. */
const META: ReadonlySet<string> = new Set(["L", "K", "x", "g"]);
const KINDS: Readonly<Record<string, string>> = {
  "0": "a file without a name",
  "1": "a hard link",
  "2": "a symbolic link",
  "3": "a device",
  "4": "a device",
  "6": "a pipe",
};

function toName(header: Uint8Array): string {
  const name = toText(header.subarray(0, 100));
  const isUstar = toText(header.subarray(257, 263)) === "ustar";
  const prefix = isUstar ? toText(header.subarray(345, 500)) : "";
  return prefix ? `${prefix}/${name}` : name;
}

function toSafePath(name: string): string {
  const parts = name.split("/").filter((part) => part !== "" && part !== ".");
  if (name.startsWith("/")) throw refuse(`${JSON.stringify(name)} is an absolute path`);
  if (parts.includes("..")) throw refuse(`${JSON.stringify(name)} leads out of the folder`);
  if (name.includes("\0")) throw refuse("a path has a zero byte in it");
  return parts.join("/");
}

/** Octal digits, or base 256 if the first bit is set. */
function toNumber(field: Uint8Array, offset: number): number {
  if ((field[0] ?? 0) & 0x80) {
    const value = field.subarray(1).reduce((sum, byte) => sum * 256 + byte, 0);
    if (Number.isSafeInteger(value)) return value;
  }
  const digits = toText(field).trim();
  if (!/^[0-7]*$/.test(digits)) throw refuse(`the header at byte ${offset} has no size`);
  return digits === "" ? 0 : Number.parseInt(digits, 8);
}

function assertChecksum(header: Uint8Array, offset: number): void {
  const expected = Number.parseInt(toText(header.subarray(148, 156)).trim(), 8);
  let sum = 0;
  for (let index = 0; index < BLOCK; index++) sum += index >= 148 && index < 156 ? 32 : (header[index] ?? 0);
  if (sum !== expected) throw refuse(`there is no header at byte ${offset}; send it uncompressed`);
}

/** `<length> <key>=<value>\n`, with the length of the whole record. */
function parsePax(content: Uint8Array): Map<string, string> {
  const records = new Map<string, string>();
  let offset = 0;
  while (offset < content.length) {
    const space = content.indexOf(32, offset);
    const digits = decoder.decode(content.subarray(offset, Math.max(offset, space)));
    const length = /^\d+$/.test(digits) ? Number(digits) : 0;
    const record = decoder.decode(content.subarray(space + 1, offset + length - 1));
    const equals = record.indexOf("=");
    if (length === 0 || equals < 0) throw refuse("a pax record is damaged");
    records.set(record.slice(0, equals), record.slice(equals + 1));
    offset += length;
  }
  if (records.has("size") && !/^\d+$/.test(records.get("size") ?? ""))
    throw refuse("a pax record is damaged");
  return records;
}

const decoder = new TextDecoder();

function toText(field: Uint8Array): string {
  const end = field.indexOf(0);
  return decoder.decode(end < 0 ? field : field.subarray(0, end));
}

function refuse(why: string): SluiceError {
  const detail = `The tar archive is refused and nothing of it was written: ${why}.`;
  return new SluiceError("invalid_request", detail);
}
