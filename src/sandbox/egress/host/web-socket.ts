import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { Transform, type TransformCallback } from "node:stream";
import { pipeline } from "node:stream/promises";
import { splice, toAuthority } from "../connection.ts";
import { connectTo, startOutgoing, type ForwardOptions, type Target } from "./forward.ts";
import type { Headers, Substitution } from "./lender.ts";
import { refuseFraming, toHeaders, toInward, toOutwardHeaders, type Inward } from "./message.ts";
import { answerRaw, Refusal, toRefusal } from "./refusal.ts";
import type { Scrubber } from "./scrubber.ts";

/** Forwards a request that asks for a WebSocket. Its head is handled like any other; the server's messages are scrubbed. */
export async function upgradeTo(
  target: Target,
  request: IncomingMessage,
  client: Socket,
  head: Buffer,
  options: ForwardOptions,
): Promise<void> {
  client.on("error", () => client.destroy());
  try {
    const substitution = await options.lender?.for(target.host, target.port);
    const headers = toUpgradeHeaders(request, target, substitution);
    const socket = await connectTo(target, options);
    if (client.destroyed) return void socket.destroy();
    const outgoing = startOutgoing(request, target, headers, socket);
    client.on("close", () => outgoing.destroy());
    outgoing.on("error", (error) => answerRaw(client, toRefusal(error)));
    outgoing.on("response", (answer) => void forwardRefusal(answer, client, substitution));
    outgoing.on("upgrade", (answer, upstream: Socket, first: Buffer) => {
      try {
        client.write(toHead(toSwitched(answer, substitution)));
      } catch (error) {
        upstream.destroy();
        return answerRaw(client, toRefusal(error));
      }
      if (first.length > 0) upstream.unshift(first);
      if (head.length > 0) client.unshift(head);
      const scrub = substitution && new ScrubFrames(() => substitution.createScrubber());
      splice(client, upstream, scrub);
    });
    outgoing.end();
  } catch (error) {
    answerRaw(client, toRefusal(error));
  }
}

function toUpgradeHeaders(
  request: IncomingMessage,
  target: Target,
  substitution: Substitution | undefined,
): Headers {
  const { host, port, isSecure = false } = target;
  const protocol = request.headers.upgrade ?? "";
  const length = Number(request.headers["content-length"] ?? 0);
  refuseFraming(request);
  if (request.headers["transfer-encoding"] !== undefined || length !== 0) {
    throw new Refusal(400, "sluice: a request that asks for another protocol has no body here.\n");
  }
  if (substitution !== undefined && protocol.trim().toLowerCase() !== "websocket") {
    const text = `sluice: secrets may go to ${toAuthority(host, port)}, so that all it answers has to be read here, and the protocol ${JSON.stringify(protocol)} cannot be. HTTP/1.1 and WebSockets can.\n`;
    throw new Refusal(403, text);
  }
  const { "sec-websocket-extensions": extensions, ...plain } = toHeaders(request);
  // The extensions compress messages, which could not be scrubbed then.
  const given =
    substitution === undefined && extensions ? { ...plain, "sec-websocket-extensions": extensions } : plain;
  const headers = toOutwardHeaders(given, { host, port, isSecure, substitution });
  return { ...headers, connection: ["Upgrade"], upgrade: [protocol] };
}

/** Forwards the answer of a server that stays with HTTP, and closes the connection. */
async function forwardRefusal(
  answer: IncomingMessage,
  client: Socket,
  substitution: Substitution | undefined,
): Promise<void> {
  let isAnswered = false;
  try {
    const { through, ...inward } = toInward(answer, substitution);
    const { "content-length": _length, ...headers } = inward.headers;
    isAnswered = true;
    client.write(toHead({ ...inward, headers: { ...headers, connection: ["close"] } }));
    await pipeline([answer, ...through, client] as [IncomingMessage, ...Transform[], Socket]);
  } catch (error) {
    answer.destroy();
    if (isAnswered) client.destroy();
    else answerRaw(client, toRefusal(error));
  }
}

function toSwitched(
  answer: IncomingMessage,
  substitution: Substitution | undefined,
): Omit<Inward, "through"> {
  const inward = toInward(answer, substitution);
  if (substitution !== undefined && inward.headers["sec-websocket-extensions"] !== undefined) {
    throw new Refusal(502, "sluice: the server uses an extension of WebSockets that it was not asked for.\n");
  }
  const upgrade = answer.headers.upgrade ?? "";
  return { ...inward, headers: { ...inward.headers, connection: ["Upgrade"], upgrade: [upgrade] } };
}

function toHead({ status, reason, headers }: Omit<Inward, "through">): string {
  const lines = [`HTTP/1.1 ${status} ${reason}`];
  for (const [name, values] of Object.entries(headers)) {
    for (const value of values) lines.push(`${name}: ${value}`);
  }
  return `${lines.join("\r\n")}\r\n\r\n`;
}

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
