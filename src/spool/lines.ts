import { isAscii, isUtf8 } from "node:buffer";
import { createHash } from "node:crypto";
import type { SpoolLine } from "../contract/index.ts";

/** The part of a too long line that is kept. */
export const CUT_BYTES = 64 * 1024;

/**
 * The lines of `bytes`, which begins at the offset `at` and ends with a newline or the file. Empty lines are left out.
 */
export function toLines(bytes: Buffer, at: number): SpoolLine[] {
  if (!isUtf8(bytes)) return toDamagedLines(bytes, at);
  const ascii = isAscii(bytes);
  const lines: SpoolLine[] = [];
  for (const text of bytes.toString(ascii ? "latin1" : "utf8").split("\n")) {
    if (text !== "") lines.push({ dir: "out", text, at });
    at += (ascii ? text.length : Buffer.byteLength(text)) + 1;
  }
  return lines;
}

/** A cut line. The hash is over the whole line. */
export function toCutLine(head: Buffer, whole: { at: number; bytes: number; sha256: string }): SpoolLine {
  const damage = { reason: "too_long", sha256: whole.sha256, bytes: whole.bytes } as const;
  const kept = head.length < whole.bytes ? head.subarray(0, wholeCharacters(head)) : head;
  return { dir: "out", text: kept.toString("utf8"), damage, at: whole.at };
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
