/** A line without its newline, or what of it is left to say why it is none. */
export type SplitLine =
  | { readonly text: string; readonly fault?: undefined }
  | { readonly text: string; readonly fault: string };

/** What a reader takes at most for one line unless it is told otherwise. */
export const MAX_LINE_BYTES = 16 * 1024 * 1024;

const LF = 0x0a;
const SHOWN = 1_000;

/** Cuts a stream at its line feeds, wherever its chunks are cut. Holds at most one line, and of that at most the limit. */
export class LineSplitter {
  readonly #limit: number;
  readonly #encoder = new TextEncoder();
  // A mark at the very beginning of a stream says only that it is UTF-8.
  #decoder = new TextDecoder("utf-8", { fatal: true });
  #pieces: Uint8Array[] = [];
  #size = 0;
  #surrogate = "";

  constructor(limit: number = MAX_LINE_BYTES) {
    this.#limit = limit;
  }

  *push(chunk: Uint8Array | string): Generator<SplitLine> {
    const bytes = typeof chunk === "string" ? this.#encode(chunk) : chunk;
    let from = 0;
    for (let at = bytes.indexOf(LF); at >= 0; at = bytes.indexOf(LF, from)) {
      this.#add(bytes.subarray(from, at));
      const line = this.#take();
      if (line) yield line;
      from = at + 1;
    }
    // A chunk is its sender's: what is kept of it is a copy.
    this.#add(bytes.slice(from));
  }

  /** The last line may lack its newline. */
  *end(): Generator<SplitLine> {
    if (this.#surrogate !== "") this.#add(this.#encoder.encode(this.#surrogate));
    const line = this.#take();
    if (line) yield line;
  }

  // A text may be cut between the two halves of one character.
  #encode(text: string): Uint8Array {
    const whole = this.#surrogate + text;
    const isCut = /[\ud800-\udbff]$/.test(whole);
    this.#surrogate = isCut ? whole.slice(-1) : "";
    return this.#encoder.encode(isCut ? whole.slice(0, -1) : whole);
  }

  #add(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    this.#size += bytes.length;
    // What is too long is told by its beginning; the rest of it is only counted.
    if (this.#size > this.#limit && this.#pieces.length > 0) return;
    this.#pieces.push(this.#size > this.#limit ? bytes.slice(0, SHOWN) : bytes);
  }

  #take(): SplitLine | undefined {
    const [pieces, size] = [this.#pieces, this.#size];
    this.#pieces = [];
    this.#size = 0;
    if (size === 0) return undefined;
    if (size > this.#limit) {
      const fault = `it has ${size} bytes, and the limit is ${this.#limit}`;
      return { text: toShown(join(pieces)), fault };
    }
    const bytes = pieces.length === 1 ? (pieces[0] as Uint8Array) : join(pieces);
    try {
      const text = this.#decoder.decode(bytes).trim();
      return text === "" ? undefined : { text };
    } catch {
      return { text: toShown(bytes), fault: "it is not UTF-8" };
    } finally {
      this.#decoder = PLAIN;
    }
  }
}

const PLAIN = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function join(pieces: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(pieces.reduce((size, piece) => size + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

function toShown(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes.subarray(0, SHOWN));
}
