/** The facts of every event that the page needs without its text: 17 bytes each, whatever the event holds. */
export class Columns {
  /** The sequence before the first event. */
  readonly base: number;
  #length = 0;
  #types = new Uint8Array(1024);
  #times = new Float64Array(1024);
  #rows = new Uint32Array(1024);
  #ends = new Uint32Array(1024);
  readonly #names: string[] = [];
  readonly #codes = new Map<string, number>();

  constructor(base: number) {
    this.base = base;
  }

  get head(): number {
    return this.base + this.#length;
  }

  push(type: string, time: number, row: number, textEnd: number): void {
    if (this.#length === this.#types.length) this.#grow();
    this.#types[this.#length] = this.#codeOf(type);
    this.#times[this.#length] = time;
    this.#rows[this.#length] = row;
    this.#ends[this.#length] = textEnd;
    this.#length += 1;
  }

  has(sequence: number): boolean {
    return sequence > this.base && sequence <= this.head;
  }

  typeOf(sequence: number): string {
    return this.#names[this.#types[sequence - this.base - 1] ?? 0] ?? "";
  }

  timeOf(sequence: number): number {
    return this.#times[sequence - this.base - 1] ?? 0;
  }

  /** The row that shows the event, by its index. */
  rowOf(sequence: number): number {
    return this.#rows[sequence - this.base - 1] ?? 0;
  }

  /** The length of the item's text after this delta. */
  textEnd(sequence: number): number {
    return this.#ends[sequence - this.base - 1] ?? 0;
  }

  #codeOf(type: string): number {
    const known = this.#codes.get(type);
    if (known !== undefined) return known;
    const code = Math.min(this.#names.length, 255);
    this.#names[code] ??= type;
    this.#codes.set(type, code);
    return code;
  }

  #grow(): void {
    const length = this.#types.length * 2;
    this.#types = grow(new Uint8Array(length), this.#types);
    this.#times = grow(new Float64Array(length), this.#times);
    this.#rows = grow(new Uint32Array(length), this.#rows);
    this.#ends = grow(new Uint32Array(length), this.#ends);
  }
}

function grow<T extends Uint8Array | Float64Array | Uint32Array>(next: T, old: T): T {
  next.set(old);
  return next;
}
