import { SluiceError } from "../contract/index.ts";

export interface TarEntry {
  /** Relative, without `.` or `..`. */
  readonly path: string;
  /** Absent for a folder. The archive's own bytes, not a copy. */
  readonly content?: Uint8Array;
}

/**
 * The files and folders of a ustar, pax or GNU archive. All of it is looked at before any of it is answered:
 * an entry that could lead outside (a link, a device, `..`, an absolute path) refuses the archive as a whole.
 */
export function parseTar(archive: Uint8Array): TarEntry[] {
  const entries: TarEntry[] = [];
  let named: string | undefined;
  let sized: number | undefined;
  let offset = 0;
  while (offset < archive.length) {
    const header = archive.subarray(offset, offset + BLOCK);
    if (header.length < BLOCK) throw refuse(`it ends within a header at byte ${offset}`);
    if (header.every((byte) => byte === 0)) return entries;
    assertChecksum(header, offset);
    const kind = String.fromCharCode(header[156] ?? 0);
    const isMeta = META.has(kind);
    const size = (isMeta ? undefined : sized) ?? toNumber(header.subarray(124, 136), offset);
    const start = offset + BLOCK;
    const content = archive.subarray(start, start + size);
    if (content.length < size) throw refuse(`it ends within the entry at byte ${offset}`);
    offset = start + Math.ceil(size / BLOCK) * BLOCK;

    if (kind === "L") named = toText(content);
    else if (kind === "x") {
      const records = parsePax(content);
      named = records.get("path") ?? named;
      sized = records.has("size") ? Number(records.get("size")) : sized;
    }
    if (isMeta) continue;
    const path = toSafePath(named ?? toName(header));
    named = undefined;
    sized = undefined;
    if (kind === "5") {
      if (path !== "") entries.push({ path });
    } else if (FILE.has(kind) && path !== "") entries.push({ path, content });
    else
      throw refuse(
        `${JSON.stringify(path)} is ${KINDS[kind] ?? "of an unknown kind"}; only files and folders are taken`,
      );
  }
  return entries;
}

const BLOCK = 512;
const FILE: ReadonlySet<string> = new Set(["0", "\0", "7"]);
/** Long names, pax records, and the pax records of the whole archive, which concern times and owners. */
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

/** Octal digits, or base 256 where the first bit is set. */
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

/** `<length> <key>=<value>\n`, the length being that of the record itself. */
function parsePax(content: Uint8Array): Map<string, string> {
  const records = new Map<string, string>();
  let offset = 0;
  while (offset < content.length) {
    const space = content.indexOf(32, offset);
    const length = Number(decoder.decode(content.subarray(offset, space)));
    const record = decoder.decode(content.subarray(space + 1, offset + length - 1));
    const equals = record.indexOf("=");
    if (space < 0 || !(length > 0) || equals < 0) throw refuse("a pax record is damaged");
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
  return new SluiceError(
    "invalid_request",
    `The tar archive is refused and nothing of it was written: ${why}.`,
  );
}
