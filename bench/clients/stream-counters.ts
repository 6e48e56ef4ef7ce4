const FIELD = Buffer.from("\nid: ");
const NEWLINE = 10;
const ZERO = 48;

/** Counts the `id:` fields of an SSE stream and finds gaps and repetitions. */
export class SequenceCounter {
  events = 0;
  /** Skipped and repeated sequence numbers. */
  missing = 0;
  repeated = 0;
  bytes = 0;
  last: number;
  // Begins with a newline, so that a field at the very beginning is seen.
  #rest: Buffer = Buffer.from("\n");

  constructor(after: number) {
    this.last = after;
  }

  /** Returns the searched bytes: the rest of earlier chunks and this chunk. */
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

/** Counts the frames of an SSE stream without numeric ids, or only the frames with a given line. */
export class FrameCounter {
  events = 0;
  readonly repeated = 0;
  bytes = 0;
  readonly last = 0;
  // Begins with a newline, so that a field at the very beginning is seen.
  #rest: Buffer = Buffer.from("\n");
  readonly #field: Buffer;

  /** `field` includes the newline before it. */
  constructor(field = "\ndata: ") {
    this.#field = Buffer.from(field);
  }

  /** Returns the searched bytes: the rest of earlier chunks and this chunk. */
  push(chunk: Buffer): Buffer {
    this.bytes += chunk.length;
    const bytes = Buffer.concat([this.#rest, chunk]);
    const field = this.#field;
    let counted = 0;
    for (let at = bytes.indexOf(field); at !== -1; at = bytes.indexOf(field, counted)) {
      this.events += 1;
      counted = at + field.length;
    }
    // The last line may be incomplete, so it is searched again with the next chunk.
    this.#rest = bytes.subarray(Math.max(counted, bytes.lastIndexOf("\n"), 0));
    return bytes;
  }
}

/** Counts the `id:` fields of a stream and finds its end marker. Cheaper than `SequenceCounter`: it parses no number. */
export class EventCount {
  events = 0;
  sawEnd = false;
  readonly #marker: Buffer;
  readonly #kept: number;
  #rest: Buffer = Buffer.from("\n");

  constructor(marker: string) {
    this.#marker = Buffer.from(marker);
    this.#kept = Math.max(this.#marker.length, FIELD.length) - 1;
  }

  push(chunk: Buffer): void {
    // A field or marker may be split between two chunks.
    const seam = Buffer.concat([this.#rest, chunk.subarray(0, this.#kept)]);
    this.events +=
      count(seam, FIELD) - count(this.#rest, FIELD) - count(seam.subarray(this.#rest.length), FIELD);
    this.events += count(chunk, FIELD);
    this.sawEnd ||= seam.includes(this.#marker) || chunk.includes(this.#marker);
    this.#rest = Buffer.from(chunk.subarray(Math.max(0, chunk.length - this.#kept)));
  }
}

function count(bytes: Buffer, field: Buffer): number {
  let found = 0;
  for (let at = bytes.indexOf(field); at !== -1; at = bytes.indexOf(field, at + field.length)) found += 1;
  return found;
}
