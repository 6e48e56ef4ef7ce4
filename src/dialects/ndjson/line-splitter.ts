/** A line without its newline; with a fault, only the beginning of the line. */
export type SplitLine =
  | { readonly text: string; readonly fault?: undefined }
  | { readonly text: string; readonly fault: string };

/** The default maximum size of a line. */
export const MAX_LINE_BYTES = 16 * 1024 * 1024;

const LF = 0x0a;
/** How many bytes of an invalid line are kept for its error. */
const SHOWN = 1_000;

/** Splits a stream into lines. It keeps at most one line in memory, up to the limit. */
export class NdjsonLineSplitter {
  readonly #limit: number;
  readonly #encoder = new TextEncoder();
  /** Decodes the first line, without a byte order mark. Later lines use `LATER_DECODER`. */
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
    // The rest is copied: the sender may reuse the memory of its chunk.
    this.#add(bytes.slice(from));
  }

  /** Yields the last line if it lacks its newline. */
  *end(): Generator<SplitLine> {
    if (this.#surrogate !== "") this.#add(this.#encoder.encode(this.#surrogate));
    const line = this.#take();
    if (line) yield line;
  }

  /** Holds back half of a surrogate pair: a chunk of text may end inside one. */
  #encode(text: string): Uint8Array {
    const whole = this.#surrogate + text;
    const isCut = /[\ud800-\udbff]$/.test(whole);
    this.#surrogate = isCut ? whole.slice(-1) : "";
    return this.#encoder.encode(isCut ? whole.slice(0, -1) : whole);
  }

  #add(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    this.#size += bytes.length;
    // Only the beginning of a line over the limit is kept.
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
      this.#decoder = LATER_DECODER;
    }
  }
}

const LATER_DECODER = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

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
