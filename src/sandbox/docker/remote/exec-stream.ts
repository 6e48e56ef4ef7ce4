import { Duplex } from "node:stream";

const HEAD = 8;
const STDOUT = 1;
/** No frame of an engine is longer. */
const LONGEST = 16 * 1024 * 1024;

/** The standard streams of a command in a container. Its output comes in frames: a stream's number, a length, bytes. */
export class ExecStream extends Duplex {
  readonly #socket: Duplex;
  #rest: Buffer = Buffer.alloc(0);

  constructor(socket: Duplex) {
    super({ allowHalfOpen: true });
    this.#socket = socket;
    socket.on("data", (chunk: Buffer) => this.#take(chunk));
    socket.on("end", () => this.push(null));
    socket.on("error", (error: Error) => this.destroy(error));
    socket.on("close", () => this.destroy());
  }

  override _read(): void {
    this.#socket.resume();
  }

  override _write(chunk: Buffer, encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#socket.write(chunk, encoding, done);
  }

  override _final(done: () => void): void {
    this.#socket.end();
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#socket.destroy();
    done(error);
  }

  #take(chunk: Buffer): void {
    let rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    let isFull = false;
    while (rest.length >= HEAD) {
      const length = rest.readUInt32BE(4);
      if (length > LONGEST) return void this.destroy(new Error("a frame of the engine is too long"));
      if (rest.length < HEAD + length) break;
      if (rest[0] === STDOUT && length > 0) isFull = !this.push(rest.subarray(HEAD, HEAD + length));
      rest = rest.subarray(HEAD + length);
    }
    this.#rest = rest;
    if (isFull) this.#socket.pause();
  }
}
