const FIELD = Buffer.from("\nid: ");
const NEWLINE = 10;
const ZERO = 48;

/** Counts the `id:` fields of an SSE stream exactly, without looking at anything else. */
export class SequenceCounter {
  events = 0;
  /** Numbers that were passed over, and numbers that came again. */
  missing = 0;
  repeated = 0;
  bytes = 0;
  last: number;
  // Begins with a newline, so that a field at the very beginning is seen.
  #rest: Buffer = Buffer.from("\n");

  constructor(after: number) {
    this.last = after;
  }

  /** Answers the bytes that were looked at, with what was left over before them. */
  push(chunk: Buffer): Buffer {
    this.bytes += chunk.length;
    const bytes = Buffer.concat([this.#rest, chunk]);
    const end = bytes.lastIndexOf(NEWLINE);
    if (end > 0) this.#count(bytes, end);
    this.#rest = end === -1 ? bytes : bytes.subarray(end);
    return bytes;
  }

  #count(bytes: Buffer, end: number): void {
    for (let at = bytes.indexOf(FIELD); at !== -1 && at < end; at = bytes.indexOf(FIELD, at)) {
      let sequence = 0;
      for (at += FIELD.length; at < end && bytes[at] !== NEWLINE; at++) {
        sequence = sequence * 10 + (bytes[at] ?? ZERO) - ZERO;
      }
      this.#take(sequence);
    }
  }

  #take(sequence: number): void {
    if (sequence <= this.last) {
      this.repeated += 1;
      return;
    }
    this.missing += sequence - this.last - 1;
    this.last = sequence;
    this.events += 1;
  }
}
