/** Splits a byte stream into lines, at newlines only. The cost is linear, however long a line is. */
export class LineSplitter {
  readonly #onLine: (line: string) => void;
  #pieces: Buffer[] = [];

  constructor(onLine: (line: string) => void) {
    this.#onLine = onLine;
  }

  push(chunk: Buffer): void {
    let from = 0;
    for (let end = chunk.indexOf(0x0a); end !== -1; end = chunk.indexOf(0x0a, from)) {
      this.#pieces.push(chunk.subarray(from, end));
      from = end + 1;
      this.#emit();
    }
    if (from < chunk.length) this.#pieces.push(chunk.subarray(from));
  }

  /** Reports the last line if it has no newline. */
  end(): void {
    if (this.#pieces.length > 0) this.#emit();
  }

  #emit(): void {
    const pieces = this.#pieces;
    this.#pieces = [];
    this.#onLine(Buffer.concat(pieces).toString("utf8"));
  }
}
