const HEADER_BYTES = 8;

export interface FrameSink {
  stdout(chunk: Buffer): void;
  stderr(chunk: Buffer): void;
}

/** Takes apart the one stream in which an engine sends both outputs of a command without a terminal. */
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
