import { asText, type Json } from "../wire.ts";

/** AWS sends binary frames: length, length of headers, checksum, headers, payload, checksum. */
const PRELUDE = 12;
const CHECKSUM = 4;
/** The longest frame that is read. A longer one passes unread, with the rest of the stream. */
const LONGEST_FRAME = 16 * 1024 * 1024;

/** Reads the events of an `application/vnd.amazon.eventstream` while it passes. */
export class EventStreamReader {
  #rest: Buffer = Buffer.alloc(0);
  #isBroken = false;

  /** The events that this chunk completes; an error of the stream is `{type: "error", error: {type}}`. */
  write(chunk: Buffer): Json[] {
    if (this.#isBroken) return [];
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    const events: Json[] = [];
    while (this.#rest.length >= PRELUDE) {
      const length = this.#rest.readUInt32BE(0);
      const headers = this.#rest.readUInt32BE(4);
      this.#isBroken = length > LONGEST_FRAME || length < PRELUDE + headers + CHECKSUM;
      if (this.#isBroken || this.#rest.length < length) break;
      const names = readHeaders(this.#rest.subarray(PRELUDE, PRELUDE + headers));
      const payload = this.#rest.subarray(PRELUDE + headers, length - CHECKSUM);
      const event = toEvent(names, payload);
      if (event !== undefined) events.push(event);
      this.#rest = this.#rest.subarray(length);
    }
    if (this.#isBroken) this.#rest = Buffer.alloc(0);
    return events;
  }
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
