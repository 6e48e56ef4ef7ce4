import { Transform, type TransformCallback } from "node:stream";

/** What stands for what, byte by byte. */
export type Replacement = readonly [from: Buffer, to: Buffer];

/** Replaces words in a stream, also those that come in pieces. Nothing is held back but what may be the beginning of one. */
export class ReplaceStream extends Transform {
  readonly #replacements: readonly Replacement[];
  #held: Buffer = Buffer.alloc(0);

  constructor(replacements: readonly Replacement[]) {
    super();
    this.#replacements = replacements;
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    let rest = Buffer.concat([this.#held, chunk]);
    for (let found = this.#findFirst(rest); found !== undefined; found = this.#findFirst(rest)) {
      this.push(Buffer.concat([rest.subarray(0, found.at), found.to]));
      rest = rest.subarray(found.at + found.from.length);
    }
    const safe = this.#replacements.reduce(
      (least, [from]) => Math.min(least, beginningOf(from, rest)),
      rest.length,
    );
    if (safe > 0) this.push(rest.subarray(0, safe));
    this.#held = rest.subarray(safe);
    done();
  }

  override _flush(done: TransformCallback): void {
    if (this.#held.length > 0) this.push(this.#held);
    done();
  }

  #findFirst(text: Buffer): { at: number; from: Buffer; to: Buffer } | undefined {
    let first: { at: number; from: Buffer; to: Buffer } | undefined;
    for (const [from, to] of this.#replacements) {
      const at = text.indexOf(from);
      if (at >= 0 && (first === undefined || at < first.at)) first = { at, from, to };
    }
    return first;
  }
}

/** Where a word begins that the text breaks off in the middle of; its end where none does. */
function beginningOf(word: Buffer, text: Buffer): number {
  const from = Math.max(0, text.length - word.length + 1);
  for (let at = text.indexOf(word[0] ?? 0, from); at >= 0; at = text.indexOf(word[0] ?? 0, at + 1)) {
    if (text.subarray(at).equals(word.subarray(0, text.length - at))) return at;
  }
  return text.length;
}
