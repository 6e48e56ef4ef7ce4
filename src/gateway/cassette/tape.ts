import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  lstatSync,
  openSync,
  readlinkSync,
  readSync,
  realpathSync,
  writeSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import type { CassetteLaunch } from "../../contract/process.ts";
import { BEGINNING, DamagedCassette, type Exchange, formatExchange, parseCassette } from "./format.ts";

const { O_APPEND, O_CREAT, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_RDWR } = constants;

/** The largest cassette. It is read whole, and a program inside could make it grow for ever. */
export const LARGEST_CASSETTE: number = 256 * 1024 * 1024;

/** A problem of a cassette, in words that say nothing of the file's text. */
export class CassetteProblem extends Error {
  constructor(file: string, why: string) {
    super(`The cassette ${file} ${why}`);
    this.name = "CassetteProblem";
  }
}

export interface Tape {
  readonly exchanges: readonly Exchange[];
  /** Adds a line; false where it could not be written whole, and so is not there. */
  append(exchange: Exchange): boolean;
  close(): void;
}

/** Opens a cassette. The agent may have put anything in its place. */
export function openTape({ file, mode }: CassetteLaunch): Tape {
  const writes = mode !== "replay";
  const fd = openPlain(file, { writes });
  try {
    const bytes = readAll(fd, file);
    const exchanges = parse(file, bytes);
    // A half line of a killed gateway.
    const end = bytes.lastIndexOf(10) + 1;
    if (writes && end < bytes.length) ftruncateSync(fd, end);
    return {
      exchanges,
      append: (exchange) => writes && appendLine(fd, Buffer.from(formatExchange(exchange))),
      close: () => closeSync(fd),
    };
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

/** The exchanges of a cassette. */
export function readCassette(file: string): Exchange[] {
  const fd = openPlain(file, { writes: false });
  try {
    return parse(file, readAll(fd, file));
  } finally {
    closeSync(fd);
  }
}

function parse(file: string, bytes: Buffer): Exchange[] {
  if (bytes.length > 0 && !bytes.subarray(0, BEGINNING.length).equals(Buffer.from(BEGINNING)))
    throw new CassetteProblem(file, "is no cassette. Name another file.");
  try {
    return parseCassette(bytes);
  } catch (error) {
    if (!(error instanceof DamagedCassette)) throw error;
    throw new CassetteProblem(file, `is damaged: ${error.message}. Record it again, or remove that line.`);
  }
}

/**
 * Opens a file by its folder's descriptor, so that no link can lead elsewhere between the check and the use. Only a
 * regular file with one name is taken.
 */
function openPlain(file: string, { writes }: { writes: boolean }): number {
  let folder: number | undefined;
  try {
    const parent = dirname(file);
    folder = openSync(parent, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    const isLinux = process.platform === "linux";
    const place = isLinux ? readlinkSync(`/proc/self/fd/${folder}`) : realpathSync(parent);
    if (place !== parent) throw new CassetteProblem(file, `lies behind a link. Name it by ${place}.`);
    const name = isLinux ? `/proc/self/fd/${folder}/${basename(file)}` : file;
    const flags = O_NOFOLLOW | O_NONBLOCK | (writes ? O_RDWR | O_APPEND | O_CREAT : O_RDONLY);
    const fd = openSync(name, flags, 0o600);
    const found = fstatSync(fd);
    if (found.isFile() && found.nlink === 1) return fd;
    closeSync(fd);
    throw new CassetteProblem(file, "is no plain file, or has a second name. Name another file.");
  } catch (error) {
    if (error instanceof CassetteProblem) throw error;
    throw new CassetteProblem(file, toAdvice(error as NodeJS.ErrnoException));
  } finally {
    if (folder !== undefined) closeSync(folder);
  }
}

function toAdvice({ code = "an error" }: NodeJS.ErrnoException): string {
  if (code === "ENOENT") return "is not there. Record it first, or name another file.";
  if (code === "ELOOP" || code === "ENOTDIR") return "is a link, or lies behind one. Name the file itself.";
  return `cannot be opened (${code}).`;
}

function readAll(fd: number, file: string): Buffer {
  const { size } = fstatSync(fd);
  if (size > LARGEST_CASSETTE)
    throw new CassetteProblem(file, `has more than ${LARGEST_CASSETTE} bytes. Use several cassettes.`);
  const bytes = Buffer.alloc(size);
  let at = 0;
  while (at < size) {
    const read = readSync(fd, bytes, at, size - at, at);
    if (read === 0) break;
    at += read;
  }
  return bytes.subarray(0, at);
}

/** One write, so that the lines of two gateways do not mix. A line that is not written whole is taken back. */
function appendLine(fd: number, line: Buffer): boolean {
  const { size } = fstatSync(fd);
  if (size + line.length > LARGEST_CASSETTE) return false;
  try {
    if (writeSync(fd, line) === line.length) return true;
  } catch {
    // A full disk.
  }
  try {
    ftruncateSync(fd, size);
  } catch {
    // The next start drops the half line.
  }
  return false;
}

/** The place of a cassette without links in its folder's path. */
export function toPlainPath(file: string): string {
  try {
    return join(realpathSync(dirname(file)), basename(file));
  } catch {
    throw new CassetteProblem(file, "lies in a folder that is not there. Make the folder first.");
  }
}

/** Whether a file has lines already; fails where it is no cassette. */
export function hasLines(file: string): boolean {
  return lstatSync(file, { throwIfNoEntry: false }) !== undefined && readCassette(file).length > 0;
}
