import type { Redact } from "./redact.ts";

/** What of a growing stream of bytes may be told: whole characters, and never a part of a secret. */
export class Tellable {
  readonly #redact: Redact;
  readonly #secrets: readonly string[];
  #held: Buffer = Buffer.alloc(0);
  /** How many bytes of the stream were told. */
  #offset: number;

  constructor(options: { redact: Redact; secrets: readonly string[]; offset: number }) {
    this.#redact = options.redact;
    this.#secrets = options.secrets;
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
      pieces.push({ text: this.#redact(all.toString("utf8", from, to)), offset: this.#offset });
      from = to;
    }
    return pieces;
  }

  #tellable(bytes: Buffer): number {
    const whole = wholeCharacters(bytes, bytes.length);
    return whole - heldSecret(bytes.subarray(0, whole), this.#secrets);
  }

  /** Strings that are not long stay in the log itself. */
  #pieceEnd(bytes: Buffer, from: number, end: number): number {
    const to = Math.min(from + PIECE_BYTES, end);
    if (to === end) return end;
    const newline = bytes.subarray(from, to).lastIndexOf(10);
    if (newline > 0) return from + newline + 1;
    const whole = wholeCharacters(bytes, to);
    const held = heldSecret(bytes.subarray(from, whole), this.#secrets);
    return whole - held > from ? whole - held : to;
  }
}

const PIECE_BYTES = 30_000;

/** How long the end of `bytes` is that could be the beginning of a secret. */
function heldSecret(bytes: Buffer, secrets: readonly string[]): number {
  let held = 0;
  for (const secret of secrets) {
    const value = Buffer.from(secret);
    for (let length = Math.min(value.length - 1, bytes.length); length > held; length -= 1) {
      if (bytes.subarray(bytes.length - length).equals(value.subarray(0, length))) held = length;
    }
  }
  return held;
}

/** The length up to `end` without a UTF-8 character that is cut there. */
function wholeCharacters(bytes: Buffer, end: number): number {
  for (let back = 1; back <= Math.min(3, end); back++) {
    const byte = bytes[end - back] ?? 0;
    if (byte < 0x80) return end;
    if (byte < 0xc0) continue;
    const needed = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    return needed > back ? end - back : end;
  }
  return end;
}
