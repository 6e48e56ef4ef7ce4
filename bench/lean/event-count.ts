const FIELD = Buffer.from("\nid: ");

/** Counts the events of a stream by their `id:` fields and looks at nothing else but the marker. */
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
    // What begins in one chunk and ends in the next is looked for where they meet.
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
