/** Counts the frames of an SSE stream whose ids are no numbers, or those that have a certain line. */
export class FrameCounter {
  events = 0;
  readonly repeated = 0;
  bytes = 0;
  readonly last = 0;
  // Begins with a newline, so that a field at the very beginning is seen.
  #rest: Buffer = Buffer.from("\n");
  readonly #field: Buffer;

  /** With the newline before it. */
  constructor(field = "\ndata: ") {
    this.#field = Buffer.from(field);
  }

  /** Answers the bytes that were looked at, with what was left over before them. */
  push(chunk: Buffer): Buffer {
    this.bytes += chunk.length;
    const bytes = Buffer.concat([this.#rest, chunk]);
    const field = this.#field;
    let counted = 0;
    for (let at = bytes.indexOf(field); at !== -1; at = bytes.indexOf(field, counted)) {
      this.events += 1;
      counted = at + field.length;
    }
    // The last line, as far as it is not counted: the rest of it may be about to come.
    this.#rest = bytes.subarray(Math.max(counted, bytes.lastIndexOf("\n"), 0));
    return bytes;
  }
}
