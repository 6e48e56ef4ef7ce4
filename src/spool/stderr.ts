import { open, type FileHandle } from "node:fs/promises";
import type { StderrOutput } from "../contract/index.ts";

const HEAD_LINES = 20;
const TAIL_LINES = 50;
const LINE_BYTES = 4_096;
const CHUNK_BYTES = 256 * 1024;

/** All of stderr, or its first 20 and last 50 lines if it has more. Memory stays bounded, however large the file is. */
export async function readStderr(file: string, cleaning: Cleaning = UNCHANGED): Promise<StderrOutput> {
  const handle = await open(file, "r");
  try {
    const { total, head, tail } = await findLines(handle);
    if (total === 0) return { truncated: false, total_lines: 0 };
    if (total <= HEAD_LINES + TAIL_LINES) {
      return { head: await readLines(handle, head, cleaning), truncated: false, total_lines: total };
    }
    return {
      head: await readLines(handle, head.slice(0, HEAD_LINES), cleaning),
      tail: await readLines(handle, tail, cleaning),
      truncated: true,
      total_lines: total,
    };
  } finally {
    await handle.close();
  }
}

/** Redacts a line before the cut, so that no part of a secret is left at the cut. */
export interface Cleaning {
  cut(text: string): string;
  /** How many bytes after the cut `cut` has to see. */
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
  { cut, reach }: Cleaning,
): Promise<string> {
  const lines: string[] = [];
  for (const { begin, end } of ranges) {
    const isLong = end - begin > LINE_BYTES;
    const bytes = Buffer.alloc(Math.min(end - begin, LINE_BYTES + reach));
    await handle.read(bytes, 0, bytes.length, begin);
    lines.push(isLong ? `${toShort(cut(bytes.toString("utf8")))}…` : bytes.toString("utf8"));
  }
  return lines.join("\n");
}

function toShort(text: string): string {
  return Buffer.from(text)
    .subarray(0, LINE_BYTES)
    .toString("utf8")
    .replace(/\uFFFD+$/, "");
}
