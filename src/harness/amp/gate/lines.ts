/** Bytes as they come, given on in whole lines, each with its newline. */
export class Lines {
  readonly #give: (line: Buffer) => void;
  #rest: Buffer[] = [];

  constructor(give: (line: Buffer) => void) {
    this.#give = give;
  }

  add(bytes: Buffer): void {
    let begin = 0;
    for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10, begin)) {
      const line = bytes.subarray(begin, end + 1);
      this.#give(this.#rest.length === 0 ? line : Buffer.concat([...this.#rest, line]));
      this.#rest = [];
      begin = end + 1;
    }
    if (begin < bytes.length) this.#rest.push(Buffer.from(bytes.subarray(begin)));
  }

  /** What stands behind the last newline. */
  end(): void {
    if (this.#rest.length > 0) this.#give(Buffer.concat(this.#rest));
    this.#rest = [];
  }
}
