import { asText, type Json } from "../wire.ts";

/** AWS sends binary frames: length, length of headers, checksum, headers, payload, checksum. */
const PRELUDE = 12;
const CHECKSUM = 4;
/** The longest frame that is read. A longer one passes unread, with the rest of the stream. */
const LONGEST_FRAME = 16 * 1024 * 1024;

/** Reads the events of an `application/vnd.amazon.eventstream` while it passes. */
export class EventStreamReader {
  #parts: Buffer[] = [];
  #size = 0;
  /** The bytes that the next frame needs, as far as its length is known. */
  #wanted = PRELUDE;
  #isBroken = false;

  /** The events that this chunk completes; an error of the stream is `{type: "error", error: {type}}`. */
  write(chunk: Buffer): Json[] {
    return this.#frames(chunk).flatMap(({ headers, payload }): Json[] => {
      const event = toEvent(headers, payload);
      return event === undefined ? [] : [event];
    });
  }

  #frames(chunk: Buffer): Frame[] {
    if (this.#isBroken) return [];
    this.#parts.push(chunk);
    this.#size += chunk.length;
    const frames: Frame[] = [];
    // The pieces of a long frame are joined once, and not again with each of them.
    while (this.#size >= this.#wanted) {
      const bytes = this.#parts.length === 1 ? (this.#parts[0] as Buffer) : Buffer.concat(this.#parts);
      const length = bytes.readUInt32BE(0);
      const headersEnd = PRELUDE + bytes.readUInt32BE(4);
      this.#isBroken = length > LONGEST_FRAME || length < headersEnd + CHECKSUM;
      if (this.#isBroken) break;
      this.#parts = [bytes];
      this.#wanted = length;
      if (bytes.length < length) break;
      const headers = readHeaders(bytes.subarray(PRELUDE, headersEnd));
      frames.push({ headers, payload: bytes.subarray(headersEnd, length - CHECKSUM) });
      this.#parts = [bytes.subarray(length)];
      this.#size = bytes.length - length;
      this.#wanted = PRELUDE;
    }
    if (this.#isBroken) [this.#parts, this.#size] = [[], 0];
    return frames;
  }
}

interface Frame {
  readonly headers: ReadonlyMap<string, string>;
  readonly payload: Buffer;
}

/** Headers with texts; others are not used for events of a model. */
function readHeaders(bytes: Buffer): Map<string, string> {
  const headers = new Map<string, string>();
  let at = 0;
  while (at < bytes.length) {
    const nameEnd = at + 1 + (bytes[at] ?? 0);
    const isText = bytes[nameEnd] === TEXT;
    if (!isText || nameEnd + 3 > bytes.length) break;
    const end = nameEnd + 3 + bytes.readUInt16BE(nameEnd + 1);
    headers.set(bytes.toString("utf8", at + 1, nameEnd), bytes.toString("utf8", nameEnd + 3, end));
    at = end;
  }
  return headers;
}

const TEXT = 7;

function toEvent(headers: ReadonlyMap<string, string>, payload: Buffer): Json | undefined {
  const failed = headers.get(":exception-type") ?? headers.get(":error-code");
  if (failed !== undefined) return { type: "error", error: { type: failed } };
  try {
    const { bytes } = JSON.parse(payload.toString("utf8")) as { bytes?: unknown };
    const text = asText(bytes);
    return text === undefined
      ? undefined
      : (JSON.parse(Buffer.from(text, "base64").toString("utf8")) as Json);
  } catch {
    return undefined;
  }
}
