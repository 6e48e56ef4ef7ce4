import { open, type FileHandle } from "node:fs/promises";
import type { StderrOutput } from "../contract/index.ts";

const HEAD_LINES = 20;
const TAIL_LINES = 50;
const LINE_BYTES = 4_096;
const CHUNK_BYTES = 256 * 1024;

/** The lines of stderr that are kept, each with up to `reach` bytes behind the cut. */
export interface StderrLines {
  readonly total: number;
  readonly head: readonly StderrLine[];
  /** Only where lines between head and tail are left out. */
  readonly tail?: readonly StderrLine[];
}

export interface StderrLine {
  readonly text: string;
  readonly isLong: boolean;
}

/** All of stderr, or its first 20 and last 50 lines if it has more. Memory stays bounded, however large the file is. */
export async function readStderrLines(file: string, reach: number): Promise<StderrLines> {
  const handle = await open(file, "r");
  try {
    const { total, head, tail } = await findLines(handle);
    if (total <= HEAD_LINES + TAIL_LINES) return { total, head: await readLines(handle, head, reach) };
    return {
      total,
      head: await readLines(handle, head.slice(0, HEAD_LINES), reach),
      tail: await readLines(handle, tail, reach),
    };
  } finally {
    await handle.close();
  }
}

export function toStderr({ total, head, tail }: StderrLines, cleaning: Cleaning = UNCHANGED): StderrOutput {
  if (total === 0) return { truncated: false, total_lines: 0 };
  const text = (lines: readonly StderrLine[]): string =>
    lines.map((line) => (line.isLong ? `${toShort(cleaning.cut(line.text))}…` : line.text)).join("\n");
  const truncated = tail !== undefined;
  return { head: text(head), ...(tail ? { tail: text(tail) } : {}), truncated, total_lines: total };
}

/** Redacts a line before the cut, so that no part of a secret is left at the cut. */
export interface Cleaning {
  cut(text: string): string;
  /** The number of bytes after the cut that `cut` needs. */
  readonly reach: number;
}

const UNCHANGED: Cleaning = { cut: (text) => text, reach: 0 };

interface LineRange {
  readonly begin: number;
  readonly end: number;
}

/** The positions of the first 70 and the last 50 lines. */
async function findLines(
  handle: FileHandle,
): Promise<{ total: number; head: LineRange[]; tail: LineRange[] }> {
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
  const head: LineRange[] = [];
  const ring: LineRange[] = [];
  let total = 0;
  let begin = 0;
  let offset = 0;
  const add = (end: number): void => {
    const range = { begin, end };
    if (head.length < HEAD_LINES + TAIL_LINES) head.push(range);
    ring[total++ % TAIL_LINES] = range;
  };
  for (;;) {
    const { bytesRead } = await handle.read(buffer, 0, CHUNK_BYTES, offset);
    if (bytesRead === 0) break;
    const bytes = buffer.subarray(0, bytesRead);
    for (let at = bytes.indexOf(10); at !== -1; at = bytes.indexOf(10, at + 1)) {
      add(offset + at);
      begin = offset + at + 1;
    }
    offset += bytesRead;
  }
  if (begin < offset) add(offset);
  const oldest = total % TAIL_LINES;
  return { total, head, tail: [...ring.slice(oldest), ...ring.slice(0, oldest)] };
}

async function readLines(
  handle: FileHandle,
  ranges: readonly LineRange[],
  reach: number,
): Promise<StderrLine[]> {
  const lines: StderrLine[] = [];
  for (const { begin, end } of ranges) {
    const isLong = end - begin > LINE_BYTES;
    const bytes = Buffer.alloc(Math.min(end - begin, LINE_BYTES + reach));
    await handle.read(bytes, 0, bytes.length, begin);
    lines.push({ text: bytes.toString("utf8"), isLong });
  }
  return lines;
}

function toShort(text: string): string {
  return Buffer.from(text)
    .subarray(0, LINE_BYTES)
    .toString("utf8")
    .replace(/\uFFFD+$/, "");
}
