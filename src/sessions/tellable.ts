import type { Redactor } from "./redact.ts";

/** What of a growing stream of bytes may be told: whole characters, and never a part of a secret. */
export class Tellable {
  readonly #redactor: Redactor;
  #held: Buffer = Buffer.alloc(0);
  /** How many bytes of the stream were told. */
  #offset: number;

  constructor(options: { redactor: Redactor; offset: number }) {
    this.#redactor = options.redactor;
    this.#offset = options.offset;
  }

  /** The next pieces; what is held back comes with the bytes behind it, or at the end. */
  take(bytes: Uint8Array, { isLast }: { isLast: boolean }): { text: string; offset: number }[] {
    const all = this.#held.length === 0 ? Buffer.from(bytes) : Buffer.concat([this.#held, bytes]);
    const end = isLast ? all.length : this.#tellable(all);
    this.#held = all.subarray(end);
    const pieces: { text: string; offset: number }[] = [];
    for (let from = 0; from < end;) {
      const to = this.#pieceEnd(all, from, end);
      this.#offset += to - from;
      pieces.push({ text: this.#redactor.text(all.toString("utf8", from, to)), offset: this.#offset });
      from = to;
    }
    return pieces;
  }

  #tellable(bytes: Buffer): number {
    const whole = wholeCharacters(bytes, bytes.length);
    return whole - this.#redactor.held(bytes.subarray(0, whole));
  }

  /** Strings that are not long stay in the log itself. */
  #pieceEnd(bytes: Buffer, from: number, end: number): number {
    const to = Math.min(from + PIECE_BYTES, end);
    if (to === end) return end;
    const newline = bytes.subarray(from, to).lastIndexOf(10);
    const cut = newline > 0 ? from + newline + 1 : wholeCharacters(bytes, to);
    const held = this.#redactor.held(bytes.subarray(from, cut));
    return cut - held > from ? cut - held : end;
  }
}

const PIECE_BYTES = 30_000;

/** The length up to `end` without a UTF-8 character that is cut there. */
export function wholeCharacters(bytes: Buffer, end: number): number {
  for (let back = 1; back <= Math.min(3, end); back++) {
    const byte = bytes[end - back] ?? 0;
    if (byte < 0x80) return end;
    if (byte < 0xc0) continue;
    const needed = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    return needed > back ? end - back : end;
  }
  return end;
}
