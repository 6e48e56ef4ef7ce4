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
    // The end of the chunk may be the beginning of a marker.
    const safe = at === -1 ? Math.max(0, bytes.length - this.#marker.length) : at;
    this.#keep(bytes.subarray(0, safe));
    this.#held = Buffer.from(bytes.subarray(safe));
  }

  /** The kept output, including bytes held back for a marker that never came. */
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

const HEADER_BYTES = 8;

interface FrameSink {
  stdout(chunk: Buffer): void;
  stderr(chunk: Buffer): void;
}

/** Splits the one stream in which an engine sends both outputs of a command. */
export class FrameSplitter {
  readonly #sink: FrameSink;
  #header = Buffer.alloc(0);
  #isStderr = false;
  #left = 0;

  constructor(sink: FrameSink) {
    this.#sink = sink;
  }

  push(chunk: Buffer): void {
    let rest = chunk;
    while (rest.length > 0) rest = this.#left > 0 ? this.#takeBody(rest) : this.#takeHeader(rest);
  }

  #takeBody(chunk: Buffer): Buffer {
    const body = chunk.subarray(0, this.#left);
    this.#left -= body.length;
    if (this.#isStderr) this.#sink.stderr(body);
    else this.#sink.stdout(body);
    return chunk.subarray(body.length);
  }

  #takeHeader(chunk: Buffer): Buffer {
    const missing = HEADER_BYTES - this.#header.length;
    this.#header = Buffer.concat([this.#header, chunk.subarray(0, missing)]);
    if (this.#header.length === HEADER_BYTES) {
      this.#isStderr = this.#header[0] === 2;
      this.#left = this.#header.readUInt32BE(4);
      this.#header = Buffer.alloc(0);
    }
    return chunk.subarray(missing);
  }
}

const NEWLINE = 0x0a;

/** Reads the number in the first line of stdout, which is the shim's. All output after it is the command's. */
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

  /** The part of a stdout chunk that belongs to the command. */
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
