import { wholeCharacters } from "../../spool/index.ts";
import type { Redactor } from "./redact.ts";

/** The log stores longer strings outside of its events. */
const PIECE_BYTES = 30_000;

/** A growing stream of bytes as redacted text. It holds back half a character and the beginning of a secret. */
export class RedactedStream {
  readonly #redactor: Redactor;
  #held: Buffer = Buffer.alloc(0);
  /** The bytes of the stream that were released. */
  #offset: number;

  constructor(options: { redactor: Redactor; offset: number }) {
    this.#redactor = options.redactor;
    this.#offset = options.offset;
  }

  /** The next pieces of text. Bytes that are held back come with later bytes, or at the end. */
  take(bytes: Uint8Array, { isLast }: { isLast: boolean }): { text: string; offset: number }[] {
    const all = this.#held.length === 0 ? Buffer.from(bytes) : Buffer.concat([this.#held, bytes]);
    const end = isLast ? all.length : this.#releasable(all);
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

  #releasable(bytes: Buffer): number {
    const whole = wholeCharacters(bytes);
    return whole - this.#redactor.held(bytes.subarray(0, whole));
  }

  /** At most `PIECE_BYTES`, after a newline where there is one. */
  #pieceEnd(bytes: Buffer, from: number, end: number): number {
    const to = Math.min(from + PIECE_BYTES, end);
    if (to === end) return end;
    const newline = bytes.subarray(from, to).lastIndexOf(10);
    const cut = newline > 0 ? from + newline + 1 : wholeCharacters(bytes, to);
    const held = this.#redactor.held(bytes.subarray(from, cut));
    return cut - held > from ? cut - held : end;
  }
}
