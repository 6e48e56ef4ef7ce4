import { createHash, randomBytes } from "node:crypto";
import { Duplex } from "node:stream";

/** Opcodes of RFC 6455. */
const TEXT = 1;
const BINARY = 2;
const CLOSE = 8;
const PING = 9;
const PONG = 10;
const LONGEST = 16 * 1024 * 1024;
const PIECE = 32 * 1024;
const NORMAL = Buffer.of(0x03, 0xe8);

/** The answer to a client's key. */
export function toAcceptKey(key: string): string {
  return createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
}

/**
 * A byte stream in the binary messages of a WebSocket. An empty text message ends one direction, which WebSockets cannot
 * do by themselves.
 */
export class WebSocketStream extends Duplex {
  readonly #socket: Duplex;
  readonly #masks: boolean;
  #rest: Buffer = Buffer.alloc(0);
  #isEnded = false;

  /** `masks`: this is the client. */
  constructor(socket: Duplex, { first, masks }: { first: Buffer; masks: boolean }) {
    super({ allowHalfOpen: true });
    this.#socket = socket;
    this.#masks = masks;
    socket.on("data", (chunk: Buffer) => this.#take(chunk));
    socket.on("end", () => this.#cut());
    socket.on("close", () => this.#cut());
    socket.on("error", (error: Error) => this.destroy(error));
    if (first.length > 0) this.#take(first);
  }

  ref(): this {
    (this.#socket as { ref?: () => void }).ref?.();
    return this;
  }

  unref(): this {
    (this.#socket as { unref?: () => void }).unref?.();
    return this;
  }

  override _read(): void {
    this.#socket.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    const frames: Buffer[] = [];
    for (let at = 0; at < chunk.length; at += PIECE)
      frames.push(this.#frame(BINARY, chunk.subarray(at, at + PIECE)));
    this.#socket.write(Buffer.concat(frames), (error) => done(error));
  }

  override _final(done: () => void): void {
    this.#socket.write(this.#frame(TEXT, Buffer.alloc(0)), () => done());
    if (this.#isEnded) this.#socket.end(this.#frame(CLOSE, NORMAL));
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#socket.destroy();
    done(error);
  }

  /** The connection is over; without an end of the other side it was cut. */
  #cut(): void {
    if (!this.#isEnded) return void this.destroy(new Error("the connection was cut"));
    if (this.readableEnded) return void this.destroy();
    // What came before the end may not be read yet.
    this.once("end", () => this.destroy());
  }

  #end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.push(null);
    if (this.writableFinished) this.#socket.end(this.#frame(CLOSE, NORMAL));
  }

  #take(chunk: Buffer): void {
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    while (!this.destroyed) {
      const frame = this.#next();
      if (!frame) return;
      this.#handle(frame);
    }
  }

  #next(): { opcode: number; body: Buffer } | undefined {
    const bytes = this.#rest;
    if (bytes.length < 2) return undefined;
    const second = bytes[1] as number;
    const isMasked = second >= 128;
    const short = second & 127;
    const size = short === 126 ? 4 : short === 127 ? 10 : 2;
    const head = size + (isMasked ? 4 : 0);
    if (bytes.length < head) return undefined;
    const length =
      short === 126 ? bytes.readUInt16BE(2) : short === 127 ? Number(bytes.readBigUInt64BE(2)) : short;
    if (length > LONGEST) return void this.destroy(new Error("a frame of the WebSocket is too long"));
    if (bytes.length < head + length) return undefined;
    this.#rest = bytes.subarray(head + length);
    const body = bytes.subarray(head, head + length);
    if (isMasked) unmask(body, bytes.subarray(size, head));
    return { opcode: (bytes[0] as number) & 15, body };
  }

  /** A message in several frames needs no joining: only the order of the bytes counts. */
  #handle({ opcode, body }: { opcode: number; body: Buffer }): void {
    if (opcode === TEXT || opcode === CLOSE) return this.#end();
    if (opcode === PING) return void this.#socket.write(this.#frame(PONG, body));
    if (opcode === PONG || body.length === 0 || this.#isEnded) return;
    if (!this.push(body)) this.#socket.pause();
  }

  #frame(opcode: number, body: Buffer): Buffer {
    const { length } = body;
    const head = length < 126 ? Buffer.alloc(2) : Buffer.alloc(4);
    head[0] = 128 | opcode;
    head[1] = (this.#masks ? 128 : 0) | (length < 126 ? length : 126);
    if (length >= 126) head.writeUInt16BE(length, 2);
    if (!this.#masks) return Buffer.concat([head, body]);
    const mask = randomBytes(4);
    const masked = Buffer.from(body);
    unmask(masked, mask);
    return Buffer.concat([head, mask, masked]);
  }
}

/** In place; masking is its own inverse. */
function unmask(body: Buffer, mask: Buffer): void {
  for (let at = 0; at < body.length; at += 1) body[at] = (body[at] as number) ^ (mask[at & 3] as number);
}
