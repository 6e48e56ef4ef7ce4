import { createHash, type Hash } from "node:crypto";
import { close, open, readSync } from "node:fs";
import { setImmediate as nextLoop } from "node:timers/promises";
import { promisify } from "node:util";
import type { SpoolLine } from "../contract/index.ts";
import { CUT_BYTES, toCutLine, toLines } from "./lines.ts";

export interface LineLimits {
  /** How much is read at once; a longer line makes it grow. */
  readonly chunkBytes: number;
  readonly batchLines: number;
  readonly batchBytes: number;
  /** A longer line is cut. */
  readonly maxLineBytes: number;
}

export const LINE_LIMITS: LineLimits = {
  // Below 128 KB: V8 keeps larger strings apart, where making one costs several times more.
  chunkBytes: 96 * 1024,
  batchLines: 2_048,
  batchBytes: 96 * 1024,
  maxLineBytes: 128 * 1024 * 1024,
};

export interface LineBatch {
  readonly lines: readonly SpoolLine[];
  readonly offset: number;
}

/** What a read on the spot may take, however long the line. */
const READ_BYTES = 1024 * 1024;

const openFile = promisify(open);
const closeFile = promisify(close);

/** Opens a growing file to read whole lines from the offset `from` on, and never behind `to`. */
export async function openLineReader(
  file: string,
  range: { from: number; to?: number },
  limits: LineLimits,
): Promise<LineReader> {
  return new LineReader(await openFile(file, "r"), range, limits);
}

export class LineReader {
  readonly #fd: number;
  readonly #limits: LineLimits;
  readonly #to: number;
  /** The bytes [begin, end) of it are read and not given yet; those before `scanned` hold no newline. */
  #buffer: Buffer;
  #begin = 0;
  #end = 0;
  #scanned = 0;
  /** The file offset of `begin`. */
  #offset: number;
  /** Decoded already and not given yet, `next` being the first of them. */
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

  /** The next whole lines, or undefined when the file has no more of them now. */
  async next(): Promise<LineBatch | undefined> {
    for (;;) {
      if (this.#next < this.#ready.length) return this.#take();
      if (this.#decode()) continue;
      if (!this.#fill()) return undefined;
      // A long line takes many reads, and others want to run between them.
      if (this.#buffer.length > this.#limits.chunkBytes || this.#cut !== undefined) await nextLoop();
    }
  }

  /** What stands behind the last newline, once the file grows no more. */
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

  /** Makes lines of what is in the buffer; false when there is no whole line in it. */
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
   * Reads on behind what is in the buffer; false at the end of the file. On the spot: what was just written lies in
   * memory, and a round through the thread pool costs more than the read.
   */
  #fill(): boolean {
    if (this.#end - this.#begin > this.#limits.maxLineBytes || this.#cut !== undefined) this.#skip();
    this.#makeRoom();
    const at = this.#offset + (this.#end - this.#begin);
    const room = Math.min(this.#buffer.length - this.#end, this.#to - at, READ_BYTES);
    if (room <= 0) return false;
    const bytesRead = readSync(this.#fd, this.#buffer, this.#end, room, at);
    this.#end += bytesRead;
    return bytesRead > 0;
  }

  /** Lets go of a line's bytes that is too long to be kept. */
  #skip(): void {
    this.#cut ??= new CutLine(this.#offset);
    this.#cut.add(this.#buffer.subarray(this.#begin, this.#end));
    this.#offset += this.#end - this.#begin;
    this.#begin = this.#end;
  }

  /** A long line makes the buffer double; when there is none it is small again. */
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

/** A line that is too long, while it is passed over. */
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

  end(bytes: Buffer): SpoolLine {
    this.add(bytes);
    return toCutLine(this.#head, { at: this.#at, bytes: this.#bytes, sha256: this.#hash.digest("hex") });
  }
}
