const NEWLINE = 0x0a;

/** The first line of stdout is a number that the shim says; everything behind it belongs to the command. */
export class FirstLine {
  readonly #onNumber: (number: number) => void;
  #text = "";
  #isRead = false;

  constructor(onNumber: (number: number) => void) {
    this.#onNumber = onNumber;
  }

  get isRead(): boolean {
    return this.#isRead;
  }

  /** What of a chunk of stdout is the command's own. */
  strip(chunk: Buffer): Buffer {
    if (this.#isRead) return chunk;
    const end = chunk.indexOf(NEWLINE);
    this.#text += chunk.subarray(0, end === -1 ? undefined : end).toString("latin1");
    if (end === -1) return chunk.subarray(chunk.length);
    this.#isRead = true;
    this.#onNumber(Number(this.#text));
    return chunk.subarray(end + 1);
  }
}
