import { randomBytes } from "node:crypto";
import { Duplex } from "node:stream";

const BINARY = 2;
const CLOSE = 8;
const PING = 9;
const PONG = 10;
/** No frame of an API server is longer. */
const LONGEST = 16 * 1024 * 1024;
const PIECE = 32 * 1024;

const [STDIN, STDOUT, STDERR, STATUS] = [0, 1, 2, 3];

/**
 * The standard streams of a command in a pod, over a WebSocket with the protocol `v4.channel.k8s.io`: the first byte of
 * a message is its channel.
 */
export class ExecStream extends Duplex {
  readonly #socket: Duplex;
  #stderr = "";
  #rest: Buffer = Buffer.alloc(0);
  #message: Buffer[] = [];

  constructor(socket: Duplex, first: Buffer) {
    super({ allowHalfOpen: true });
    this.#socket = socket;
    socket.on("data", (chunk: Buffer) => this.#take(chunk));
    socket.on("end", () => this.push(null));
    socket.on("error", (error: Error) => this.destroy(error));
    socket.on("close", () => this.destroy());
    if (first.length > 0) this.#take(first);
  }

  override _read(): void {
    this.#socket.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    const frames: Buffer[] = [];
    for (let at = 0; at < chunk.length; at += PIECE)
      frames.push(toFrame(BINARY, Buffer.concat([Buffer.of(STDIN), chunk.subarray(at, at + PIECE)])));
    this.#socket.write(Buffer.concat(frames), (error) => done(error));
  }

  /** The protocol has no half-closed connection. */
  override _final(done: () => void): void {
    this.#socket.end(toFrame(CLOSE, Buffer.of(0x03, 0xe8)));
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#socket.destroy();
    done(error);
  }

  #take(chunk: Buffer): void {
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    for (let frame = this.#next(); frame; frame = this.#next()) this.#handle(frame);
  }

  #next(): { opcode: number; isLast: boolean; body: Buffer } | undefined {
    const bytes = this.#rest;
    if (bytes.length < 2) return undefined;
    const short = (bytes[1] as number) & 127;
    const head = short === 126 ? 4 : short === 127 ? 10 : 2;
    if (bytes.length < head) return undefined;
    const length =
      short === 126 ? bytes.readUInt16BE(2) : short === 127 ? Number(bytes.readBigUInt64BE(2)) : short;
    if (length > LONGEST) return void this.destroy(new Error("a frame of the API server is too long"));
    if (bytes.length < head + length) return undefined;
    this.#rest = bytes.subarray(head + length);
    const first = bytes[0] as number;
    return { opcode: first & 15, isLast: first >= 128, body: bytes.subarray(head, head + length) };
  }

  #handle({ opcode, isLast, body }: { opcode: number; isLast: boolean; body: Buffer }): void {
    if (opcode === CLOSE) return void this.#socket.end();
    if (opcode === PING) return void this.#socket.write(toFrame(PONG, body));
    if (opcode === PONG) return;
    this.#message.push(body);
    if (!isLast) return;
    const message = Buffer.concat(this.#message.splice(0));
    const [channel] = message;
    const content = message.subarray(1);
    if (channel === STDERR) this.#stderr = `${this.#stderr}${content.toString("utf8")}`.slice(-500);
    if (channel === STATUS && !content.includes('"status":"Success"'))
      return void this.destroy(new Error(this.#stderr.trim() || content.toString("utf8").slice(0, 500)));
    if (channel !== STDOUT || content.length === 0) return;
    if (!this.push(content)) this.#socket.pause();
  }
}

/** A whole frame. Those of a client are masked. */
function toFrame(opcode: number, body: Buffer): Buffer {
  const length = body.length;
  const head = length < 126 ? Buffer.alloc(2) : Buffer.alloc(4);
  head[0] = 128 | opcode;
  head[1] = 128 | (length < 126 ? length : 126);
  if (length >= 126) head.writeUInt16BE(length, 2);
  const mask = randomBytes(4);
  const masked = Buffer.from(body);
  for (let at = 0; at < masked.length; at += 1)
    masked[at] = (masked[at] as number) ^ (mask[at % 4] as number);
  return Buffer.concat([head, mask, masked]);
}
