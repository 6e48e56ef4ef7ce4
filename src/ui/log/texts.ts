import type { SluiceEvent } from "../../contract/index.ts";

/** Events in one page of texts, and in one request for them. */
export const PAGE = 1_000;
/** How many pages stay in memory, and how many characters; the page in use stays in any case. */
const KEPT = 50;
const KEPT_CHARS = 32_000_000;
/** A longer text is kept in a short form: its long strings end here. The server has the whole. */
const LONG = 1_000_000;
const LONG_STRING = 100_000;

export type ReadPage = (after: number, limit: number) => Promise<readonly string[]>;

/** The texts of events, in pages. Those that were not used for long are dropped and read again when needed. */
export class Texts {
  readonly #read: ReadPage | undefined;
  /** Deltas and output are apart: however much they are, they do not displace the events that rows are made of. */
  readonly #things: Pages;
  readonly #growth: Pages;
  readonly #short = new Set<number>();
  readonly #loading = new Map<number, Promise<void>>();

  /** Without `read` every page stays, and every text is whole: there is nobody to ask again. */
  constructor(read: ReadPage | undefined) {
    this.#read = read;
    this.#things = new Pages(read !== undefined);
    this.#growth = new Pages(read !== undefined);
  }

  set(sequence: number, text: string): void {
    const pages = isGrowth(text) ? this.#growth : this.#things;
    if (!this.#read || text.length <= LONG) return pages.set(sequence, text);
    this.#short.add(sequence);
    pages.set(sequence, shorten(text));
  }

  get(sequence: number): string | undefined {
    return this.#things.get(sequence) ?? this.#growth.get(sequence);
  }

  /** The text as the server has it. `load` comes first. */
  async whole(sequence: number): Promise<string | undefined> {
    if (!this.#short.has(sequence) || !this.#read) return this.get(sequence);
    const [text] = await this.#read(sequence - 1, 1);
    return text;
  }

  /** Reads what is missing of these events. */
  async load(first: number, last: number): Promise<void> {
    for (let number = pageOf(first); number <= pageOf(last); number++) {
      const from = Math.max(first, number * PAGE + 1);
      const to = Math.min(last, (number + 1) * PAGE);
      if (!this.#isWhole(from, to)) await this.#loadPage(number);
    }
  }

  #isWhole(from: number, to: number): boolean {
    for (let sequence = from; sequence <= to; sequence++) if (this.get(sequence) === undefined) return false;
    return true;
  }

  #loadPage(number: number): Promise<void> {
    const known = this.#loading.get(number);
    if (known) return known;
    const loading = this.#fetchPage(number).finally(() => this.#loading.delete(number));
    this.#loading.set(number, loading);
    return loading;
  }

  async #fetchPage(number: number): Promise<void> {
    // The server answers with fewer events than the limit if they are big.
    let after = number * PAGE;
    const end = after + PAGE;
    while (this.#read && after < end) {
      const texts = await this.#read(after, end - after);
      for (const text of texts) {
        after = sequenceOf(text);
        if (after <= end) this.set(after, text);
      }
      if (texts.length === 0) return;
    }
  }
}

/** Pages of texts, the newest used last. */
class Pages {
  readonly #drops: boolean;
  readonly #pages = new Map<number, (string | undefined)[]>();
  readonly #sizes = new Map<number, number>();
  #chars = 0;

  constructor(drops: boolean) {
    this.#drops = drops;
  }

  set(sequence: number, text: string): void {
    const number = pageOf(sequence);
    let page = this.#pages.get(number);
    if (!page) {
      page = [];
      this.#pages.set(number, page);
    }
    const place = (sequence - 1) % PAGE;
    const growth = text.length - (page[place]?.length ?? 0);
    page[place] = text;
    this.#chars += growth;
    this.#sizes.set(number, (this.#sizes.get(number) ?? 0) + growth);
    this.#drop(number);
  }

  get(sequence: number): string | undefined {
    const number = pageOf(sequence);
    const page = this.#pages.get(number);
    if (!page) return undefined;
    if (this.#pages.size > 2) {
      this.#pages.delete(number);
      this.#pages.set(number, page);
    }
    return page[(sequence - 1) % PAGE];
  }

  #drop(used: number): void {
    if (!this.#drops) return;
    for (const number of this.#pages.keys()) {
      if (this.#pages.size <= KEPT && this.#chars <= KEPT_CHARS) return;
      if (number === used) continue;
      this.#pages.delete(number);
      this.#chars -= this.#sizes.get(number) ?? 0;
      this.#sizes.delete(number);
    }
  }
}

/** An event whose long strings are cut, with the number of characters that it lost. */
export type ShortEvent = SluiceEvent & { readonly lost?: number };

function shorten(text: string): string {
  let lost = 0;
  const event = JSON.parse(text, (_key, value: unknown) => {
    if (typeof value !== "string" || value.length <= LONG_STRING) return value;
    lost += value.length - LONG_STRING;
    return value.slice(0, LONG_STRING);
  }) as SluiceEvent;
  return JSON.stringify({ ...event, lost });
}

function pageOf(sequence: number): number {
  return Math.floor((sequence - 1) / PAGE);
}

/** The sequence is among the first fields of the text. */
export function sequenceOf(text: string): number {
  const at = text.indexOf('"sequence":');
  return Number.parseInt(text.slice(at + 11, at + 30), 10);
}

/** The type comes before the data. */
function isGrowth(text: string): boolean {
  const at = text.indexOf('"type":"');
  return /^(?:item\.delta|command\.output|process\.output)"/.test(text.slice(at + 8, at + 24));
}
