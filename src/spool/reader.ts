import { isAscii, isUtf8 } from "node:buffer";
import { createHash, type Hash } from "node:crypto";
import { close, fstatSync, open, readSync } from "node:fs";
import { setImmediate as letOthersRun } from "node:timers/promises";
import { promisify } from "node:util";
import type { SpoolLine } from "../contract/index.ts";
import { demandLength } from "./shortened.ts";

export interface LineLimits {
  /** The size of the buffer. A longer line makes it grow. */
  readonly chunkBytes: number;
  readonly batchLines: number;
  readonly batchBytes: number;
  /** A longer line is cut. */
  readonly maxLineBytes: number;
}

export const LINE_LIMITS: LineLimits = {
  // Below 128 KB: V8 allocates larger strings separately, at several times the cost.
  chunkBytes: 96 * 1024,
  batchLines: 2_048,
  batchBytes: 96 * 1024,
  maxLineBytes: 128 * 1024 * 1024,
};

interface LineBatch {
  readonly lines: readonly SpoolLine[];
  readonly offset: number;
}

/** The most that one synchronous read may take, however long the line is. */
const READ_BYTES = 1024 * 1024;
/** The part of a too long line that is kept. */
const CUT_BYTES = 64 * 1024;

const openFile = promisify(open);
const closeFile = promisify(close);

/** Opens a growing file, to read whole lines from the offset `from` on, up to `to`. */
export async function openLineReader(
  file: string,
  range: { from: number; to?: number },
  limits: LineLimits,
): Promise<LineReader> {
  return new LineReader(await openFile(file, "r"), range, limits);
}

class LineReader {
  readonly #fd: number;
  readonly #limits: LineLimits;
  readonly #to: number;
  /** The bytes [begin, end) are read and not returned yet. Those before `scanned` contain no newline. */
  #buffer: Buffer;
  #begin = 0;
  #end = 0;
  #scanned = 0;
  /** The file offset of `begin`. */
  #offset: number;
  /** Decoded lines that are not returned yet; `next` is the first of them. */
  #ready: SpoolLine[] = [];
  #next = 0;
  #cut: CutLine | undefined;

  constructor(fd: number, range: { from: number; to?: number }, limits: LineLimits) {
    this.#fd = fd;
    this.#limits = limits;
    this.#offset = range.from;
    this.#to = range.to ?? Number.POSITIVE_INFINITY;
    this.#buffer = Buffer.allocUnsafeSlow(limits.chunkBytes);
  }

  /** The next whole lines; undefined where the file has no more of them now. Throws where the file was shortened. */
  async next(): Promise<LineBatch | undefined> {
    for (;;) {
      if (this.#next < this.#ready.length) return this.#take();
      if (this.#decode()) continue;
      if (!this.#fill()) return undefined;
      // A long line takes many reads, and other work runs in between.
      if (this.#buffer.length > this.#limits.chunkBytes || this.#cut !== undefined) await letOthersRun();
    }
  }

  /** The text after the last newline, once the process has ended. */
  rest(): LineBatch {
    const cut = this.#cut;
    const bytes = this.#buffer.subarray(this.#begin, this.#end);
    this.#begin = this.#scanned = this.#end;
    this.#cut = undefined;
    const lines = cut === undefined ? this.#toLines(bytes, this.#offset) : [cut.end(bytes)];
    this.#offset += bytes.length;
    return { lines, offset: this.#offset };
  }

  close(): Promise<void> {
    return closeFile(this.#fd);
  }

  #take(): LineBatch {
    const first = this.#next;
    this.#next = Math.min(first + this.#limits.batchLines, this.#ready.length);
    const after = this.#ready[this.#next];
    const lines = this.#ready.slice(first, this.#next);
    if (after !== undefined) return { lines, offset: after.at };
    this.#ready = [];
    this.#next = 0;
    return { lines, offset: this.#offset };
  }

  /** Turns the buffer into lines; false where it contains no whole line. */
  #decode(): boolean {
    const first = this.#buffer.subarray(0, this.#end).indexOf(10, this.#scanned);
    if (first === -1) {
      this.#scanned = this.#end;
      return false;
    }
    const window = Math.min(this.#end, this.#begin + this.#limits.batchBytes);
    const last = this.#cut === undefined ? this.#buffer.subarray(0, window).lastIndexOf(10) : first;
    const end = Math.max(first, last) + 1;
    const bytes = this.#buffer.subarray(this.#begin, end);
    const cut = this.#cut;
    this.#cut = undefined;
    this.#ready =
      cut === undefined ? this.#toLines(bytes, this.#offset) : [cut.end(bytes.subarray(0, bytes.length - 1))];
    this.#offset += bytes.length;
    this.#begin = this.#scanned = end;
    return true;
  }

  #toLines(bytes: Buffer, at: number): SpoolLine[] {
    const { maxLineBytes } = this.#limits;
    if (bytes.length <= maxLineBytes) return toLines(bytes, at);
    const lines: SpoolLine[] = [];
    for (let begin = 0; begin < bytes.length;) {
      const newline = bytes.indexOf(10, begin);
      const line = bytes.subarray(begin, newline === -1 ? bytes.length : newline);
      if (line.length > maxLineBytes) lines.push(new CutLine(at + begin).end(line));
      else lines.push(...toLines(line, at + begin));
      begin += line.length + 1;
    }
    return lines;
  }

  /**
   * Reads on into the buffer; false at the end of the file. Synchronous: new output is in the page cache, and a round
   * through the thread pool costs more than the read.
   */
  #fill(): boolean {
    if (this.#end - this.#begin > this.#limits.maxLineBytes || this.#cut !== undefined) this.#skip();
    this.#makeRoom();
    const at = this.#offset + (this.#end - this.#begin);
    const room = Math.min(this.#buffer.length - this.#end, this.#to - at, READ_BYTES);
    if (room <= 0) return false;
    const bytesRead = readSync(this.#fd, this.#buffer, this.#end, room, at);
    this.#end += bytesRead;
    if (bytesRead === 0) demandLength(fstatSync(this.#fd), at);
    return bytesRead > 0;
  }

  /** Drops the bytes of a too long line. */
  #skip(): void {
    this.#cut ??= new CutLine(this.#offset);
    this.#cut.add(this.#buffer.subarray(this.#begin, this.#end));
    this.#offset += this.#end - this.#begin;
    this.#begin = this.#end;
  }

  /** Doubles the buffer for a long line, and shrinks it afterwards. */
  #makeRoom(): void {
    const kept = this.#end - this.#begin;
    const { chunkBytes, maxLineBytes } = this.#limits;
    let size = this.#buffer.length;
    if (kept * 2 > size) size = Math.min(size * 2, maxLineBytes + chunkBytes);
    if (kept * 2 <= chunkBytes) size = chunkBytes;
    if (size === this.#buffer.length && this.#end < size && kept > 0) return;

    const target = size === this.#buffer.length ? this.#buffer : Buffer.allocUnsafeSlow(size);
    this.#buffer.copy(target, 0, this.#begin, this.#end);
    this.#buffer = target;
    this.#begin = 0;
    this.#end = this.#scanned = kept;
  }
}

/** A too long line, while it is skipped. */
class CutLine {
  readonly #at: number;
  readonly #hash: Hash = createHash("sha256");
  #head = Buffer.alloc(0);
  #bytes = 0;

  constructor(at: number) {
    this.#at = at;
  }

  add(bytes: Buffer): void {
    if (this.#head.length < CUT_BYTES) {
      this.#head = Buffer.concat([this.#head, bytes.subarray(0, CUT_BYTES - this.#head.length)]);
    }
    this.#hash.update(bytes);
    this.#bytes += bytes.length;
  }

  /** The cut line, with the hash of the whole line. */
  end(bytes: Buffer): SpoolLine {
    this.add(bytes);
    const head = this.#head;
    const kept = head.length < this.#bytes ? head.subarray(0, wholeCharacters(head)) : head;
    const damage = { reason: "too_long", sha256: this.#hash.digest("hex"), bytes: this.#bytes } as const;
    return { dir: "out", text: kept.toString("utf8"), damage, at: this.#at };
  }
}

/**
 * The lines of `bytes`, which begins at the offset `at` and ends with a newline or the file. Empty lines are left out.
 */
function toLines(bytes: Buffer, at: number): SpoolLine[] {
  if (!isUtf8(bytes)) return toDamagedLines(bytes, at);
  const ascii = isAscii(bytes);
  const lines: SpoolLine[] = [];
  for (const text of bytes.toString(ascii ? "latin1" : "utf8").split("\n")) {
    if (text !== "") lines.push({ dir: "out", text, at });
    at += (ascii ? text.length : Buffer.byteLength(text)) + 1;
  }
  return lines;
}

function toDamagedLines(bytes: Buffer, at: number): SpoolLine[] {
  const lines: SpoolLine[] = [];
  for (let begin = 0; begin < bytes.length;) {
    const newline = bytes.indexOf(10, begin);
    const end = newline === -1 ? bytes.length : newline;
    if (end > begin) lines.push(toLine(bytes.subarray(begin, end), at + begin));
    begin = end + 1;
  }
  return lines;
}

function toLine(bytes: Buffer, at: number): SpoolLine {
  const text = bytes.toString("utf8");
  if (isUtf8(bytes)) return { dir: "out", text, at };
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  return { dir: "out", text, damage: { reason: "utf8", sha256, bytes: bytes.length }, at };
}

/** The length up to `end` without a UTF-8 character that is cut there. */
export function wholeCharacters(bytes: Buffer, end: number = bytes.length): number {
  for (let back = 1; back <= Math.min(3, end); back++) {
    const byte = bytes[end - back] ?? 0;
    if (byte < 0x80) return end;
    if (byte < 0xc0) continue;
    const needed = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    return needed > back ? end - back : end;
  }
  return end;
}
