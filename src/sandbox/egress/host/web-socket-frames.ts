import { Transform, type TransformCallback } from "node:stream";
import type { Scrubber } from "./scrubber.ts";

/** Opcodes of RFC 6455. */
const CONTINUATION = 0;
const BINARY = 2;
const CLOSE = 8;
const PONG = 10;
const LONGEST_CONTROL = 125;

interface Frame {
  readonly opcode: number;
  readonly isFinal: boolean;
  /** The number of payload bytes that are still to come. */
  left: number;
}

/** Scrubs the messages of a WebSocket server. A secret is found even if it is spread over several frames. */
export class ScrubFrames extends Transform {
  readonly #createScrubber: () => Scrubber;
  #buffer: Buffer = Buffer.alloc(0);
  #frame: Frame | undefined;
  #message: { readonly scrubber: Scrubber; opcode: number } | undefined;

  constructor(createScrubber: () => Scrubber) {
    super();
    this.#createScrubber = createScrubber;
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#buffer = Buffer.concat([this.#buffer, chunk]);
    try {
      while (this.#advance());
      done();
    } catch (error) {
      done(error as Error);
    }
  }

  /** Handles the next frame, or a part of it. False when more bytes have to come. */
  #advance(): boolean {
    const frame = (this.#frame ??= this.#readHeader());
    if (frame === undefined) return false;
    const isControl = frame.opcode >= CLOSE;
    const isWhole = this.#buffer.length >= frame.left;
    if (!isWhole && (isControl || this.#buffer.length === 0)) return false;
    const payload = this.#buffer.subarray(0, frame.left);
    this.#buffer = this.#buffer.subarray(payload.length);
    frame.left -= payload.length;
    if (isWhole) this.#frame = undefined;
    if (isControl) this.#control(frame.opcode, payload);
    else this.#data(frame, payload, isWhole && frame.isFinal);
    return isWhole;
  }

  #readHeader(): Frame | undefined {
    const [first, second] = this.#buffer;
    if (first === undefined || second === undefined) return undefined;
    const opcode = first & 15;
    const isFinal = first >= 128;
    const short = second & 127;
    const size = short === 127 ? 8 : short === 126 ? 2 : 0;
    const isControl = opcode >= CLOSE;
    // The client offered no extensions, and a server never masks its frames.
    const isBad = (first & 0x70) !== 0 || second >= 128 || opcode > PONG || (opcode > BINARY && !isControl);
    if (isBad || (isControl && (!isFinal || size > 0))) throw new Error("no frame of a WebSocket");
    if (this.#buffer.length < 2 + size) return undefined;
    const left =
      size === 8
        ? Number(this.#buffer.readBigUInt64BE(2))
        : size === 2
          ? this.#buffer.readUInt16BE(2)
          : short;
    this.#buffer = this.#buffer.subarray(2 + size);
    return { opcode, isFinal, left };
  }

  #control(opcode: number, payload: Buffer): void {
    // The payload of a close begins with its status, in two bytes.
    const from = opcode === CLOSE ? Math.min(2, payload.length) : 0;
    const scrubber = this.#createScrubber();
    const text = Buffer.concat([scrubber.write(payload.subarray(from)), scrubber.end()]);
    const whole = Buffer.concat([payload.subarray(0, from), text]).subarray(0, LONGEST_CONTROL);
    this.push(toFrame(opcode, true, whole));
  }

  #data({ opcode }: Frame, payload: Buffer, isLast: boolean): void {
    this.#message ??= { scrubber: this.#createScrubber(), opcode };
    const { scrubber } = this.#message;
    const given = scrubber.write(payload);
    const whole = isLast ? Buffer.concat([given, scrubber.end()]) : given;
    if (isLast || whole.length > 0) {
      this.push(toFrame(this.#message.opcode, isLast, whole));
      this.#message.opcode = CONTINUATION;
    }
    if (isLast) this.#message = undefined;
  }
}

function toFrame(opcode: number, isFinal: boolean, payload: Buffer): Buffer {
  const { length } = payload;
  const size = length < 126 ? 0 : length < 65_536 ? 2 : 8;
  const head = Buffer.alloc(2 + size);
  head[0] = opcode | (isFinal ? 128 : 0);
  head[1] = size === 0 ? length : size === 2 ? 126 : 127;
  if (size === 2) head.writeUInt16BE(length, 2);
  if (size === 8) head.writeBigUInt64BE(BigInt(length), 2);
  return Buffer.concat([head, payload]);
}
