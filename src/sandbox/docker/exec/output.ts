/** One output of a command: its first bytes up to a limit, until the shim's marker says that the command has ended. */
export class CommandOutput {
  readonly #marker: Buffer;
  readonly #limit: number;
  readonly #onEnd: (exitCode: number) => void;
  readonly #chunks: Buffer[] = [];
  #held = Buffer.alloc(0);
  #kept = 0;
  #isCut = false;
  #isEnded = false;

  constructor(options: { marker: string; limit: number; onEnd: (exitCode: number) => void }) {
    this.#marker = Buffer.from(`${options.marker} `);
    this.#limit = options.limit;
    this.#onEnd = options.onEnd;
  }

  push(chunk: Buffer): void {
    if (this.#isEnded) return;
    const bytes = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    const at = bytes.indexOf(this.#marker);
    const line = at === -1 ? null : /^\d+(?=\n)/.exec(bytes.toString("latin1", at + this.#marker.length));
    if (line) {
      this.#isEnded = true;
      this.#keep(bytes.subarray(0, at));
      this.#held = Buffer.alloc(0);
      this.#onEnd(Number(line[0]));
      return;
    }
    // A marker may be cut in two by the stream.
    const safe = at === -1 ? Math.max(0, bytes.length - this.#marker.length) : at;
    this.#keep(bytes.subarray(0, safe));
    this.#held = Buffer.from(bytes.subarray(safe));
  }

  /** All that was kept, and what was held back for a marker that never came. */
  text(): string {
    this.#keep(this.#held);
    this.#held = Buffer.alloc(0);
    return Buffer.concat(this.#chunks).toString("utf8");
  }

  note(name: string): string {
    return this.#isCut ? `\n[${name} was cut after ${this.#limit} bytes]\n` : "";
  }

  #keep(bytes: Buffer): void {
    if (this.#kept + bytes.length > this.#limit) this.#isCut = true;
    const part = bytes.subarray(0, Math.max(0, this.#limit - this.#kept));
    if (part.length === 0) return;
    this.#chunks.push(part);
    this.#kept += part.length;
  }
}
