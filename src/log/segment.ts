import { createHash } from "node:crypto";
import type { EventDraft } from "../contract/index.ts";
import type { Batch, ReadRange, StoredEvent } from "./port.ts";
import { isKnownType, readType, type EventSerialiser } from "./serialise.ts";

const SEGMENT_EVENTS = 1024;
// A row's two texts stay below 128 KB each: V8 allocates larger strings separately, at several times the cost.
const TEXT_LENGTH = 96 * 1024;

/** One row of the store: consecutive events, one line each, and their native lines. */
export interface Segment {
  readonly first: number;
  readonly last: number;
  readonly bodies: string;
  /** One entry per event, or null where no event has a native line. */
  readonly raws: string | null;
}

/** A segment on its way into the store, with the blobs that it refers to. */
export interface NewSegment extends Segment {
  readonly blobs: readonly Blob[];
}

/** The segments of a batch whose first event has the sequence `first`. */
export interface Serialised {
  readonly serialiser: EventSerialiser;
  readonly first: number;
  readonly segments: readonly NewSegment[];
}

export function serialise(batch: Batch, serialiser: EventSerialiser, first: number): Serialised {
  const texts = serialiser.serialise(batch.events, { first, time: batch.time });
  return { serialiser, first, segments: toSegments(batch.events, texts, first) };
}

export function toSegments(
  drafts: readonly EventDraft[],
  texts: readonly string[],
  first: number,
): NewSegment[] {
  const segments: NewSegment[] = [];
  for (let from = 0; from < drafts.length;) {
    const segment = packOne(drafts, texts, { from, first });
    segments.push(segment);
    from = segment.last + 1 - first;
  }
  return segments;
}

function packOne(
  drafts: readonly EventDraft[],
  texts: readonly string[],
  at: { from: number; first: number },
): NewSegment {
  const blobs: Blob[] = [];
  const lines: string[] = [];
  const entries: string[] = [];
  let hasRaw = false;
  let bodiesLength = 0;
  let rawsLength = 0;
  let previous: string | undefined;
  let index = at.from;
  for (; index < drafts.length && index - at.from < SEGMENT_EVENTS; index++) {
    const text = texts[index] as string;
    const outline = isBig(text) ? toOutline(text) : undefined;
    const line = outline?.line ?? text;
    bodiesLength += line.length + 1;
    if (index > at.from && (bodiesLength > TEXT_LENGTH || rawsLength > TEXT_LENGTH)) break;
    if (outline) blobs.push(...outline.blobs);
    const raw = drafts[index]?.raw;
    const entry = toRawEntry(raw, previous, blobs);
    previous = raw;
    hasRaw ||= raw !== undefined;
    rawsLength += entry.length + 1;
    lines.push(line);
    entries.push(entry);
  }
  return {
    first: at.first + at.from,
    last: at.first + index - 1,
    bodies: lines.join("\n"),
    raws: hasRaw ? entries.join("\n") : null,
    blobs,
  };
}

/**
 * The events of a segment after the sequence `after`, with their large texts. If one of these is missing, the event's
 * body stays an outline.
 */
export function* fromSegment(
  segment: Segment,
  range: Pick<ReadRange, "after" | "raw" | "types">,
  read: (hash: string) => string | undefined,
): Generator<StoredEvent> {
  const bodies = new Lines(segment.bodies);
  const raws = range.raw && segment.raws !== null ? new Lines(segment.raws) : undefined;
  let raw: string | undefined;
  for (let sequence = segment.first; sequence <= segment.last; sequence++) {
    const entry = raws?.next();
    if (entry !== undefined && entry !== "=") raw = entry;
    if (sequence <= range.after) {
      bodies.skip();
      continue;
    }
    const line = bodies.next();
    const type = readType(isOutline(line) ? line.slice(line.indexOf(" ") + 1) : line, sequence);
    if (range.types && !range.types.has(type) && isKnownType(type)) continue;
    const body = isOutline(line) ? (fromOutline(line, read) ?? line) : line;
    const native = raw ? fromRawEntry(raw, read) : undefined;
    yield native === undefined ? { sequence, type, body } : { sequence, type, body, raw: native };
  }
}

/**
 * The stored form of a native line: the line itself; or `=` for the previous line, `@` and a hash for a large one, `!`
 * and a JSON string for one that could be mistaken for another form or breaks the row. Empty where there is no line.
 */
function toRawEntry(raw: string | undefined, previous: string | undefined, blobs: Blob[]): string {
  if (raw === undefined) return "";
  if (raw === previous) return "=";
  if (!isWellFormed(raw)) return `!${JSON.stringify(raw)}`;
  if (isBig(raw)) {
    const blob = toBlob(raw);
    blobs.push(blob);
    return `@${blob.hash}`;
  }
  if (raw === "" || "=@!".includes(raw.charAt(0)) || raw.includes("\n") || raw.includes("\0")) {
    return `!${JSON.stringify(raw)}`;
  }
  return raw;
}

function fromRawEntry(entry: string, read: (hash: string) => string | undefined): string | undefined {
  if (entry.startsWith("@")) return read(entry.slice(1));
  return entry.startsWith("!") ? fromQuoted(entry.slice(1)) : entry;
}

/** A damaged native line counts as missing: the event can be read without it. */
function fromQuoted(text: string): string | undefined {
  try {
    return JSON.parse(text) as string;
  } catch {
    return undefined;
  }
}

class Lines {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  next(): string {
    const start = this.#at;
    this.skip();
    return this.#text.slice(start, this.#at - 1);
  }

  skip(): void {
    const end = this.#text.indexOf("\n", this.#at);
    this.#at = (end === -1 ? this.#text.length : end) + 1;
  }
}

/** Larger texts are blobs: stored once, outside of the rows. */
const BLOB_BYTES = 32 * 1024;

/** A content-addressed text, on its way into the store. */
export interface Blob {
  readonly hash: string;
  readonly text: string;
}

function isBig(text: string): boolean {
  // A UTF-16 unit takes at most three bytes, so most texts need no count.
  if (text.length * 3 <= BLOB_BYTES) return false;
  return text.length > BLOB_BYTES || Buffer.byteLength(text) > BLOB_BYTES;
}

function toBlob(text: string): Blob {
  return { hash: createHash("sha256").update(text).digest("hex"), text };
}

/**
 * An event's text without its large strings; undefined where it has none. The line begins with `@` and, for each blob,
 * its offset in the remaining text and its hash. No event's text begins with `@`.
 */
export function toOutline(text: string): { line: string; blobs: Blob[] } | undefined {
  const blobs: Blob[] = [];
  const references: string[] = [];
  let outline = "";
  let copied = 0;
  let close = -1;
  for (let open = text.indexOf('"'); open !== -1; open = text.indexOf('"', close + 1)) {
    close = closingQuote(text, open + 1);
    if ((close - open) * 3 <= BLOB_BYTES) continue;
    const content = JSON.parse(text.slice(open, close + 1)) as string;
    if (!isBig(content) || !isWellFormed(content)) continue;
    const blob = toBlob(content);
    blobs.push(blob);
    outline += text.slice(copied, open + 1);
    copied = close;
    references.push(`${outline.length}:${blob.hash}`);
  }
  if (blobs.length === 0) return undefined;
  return { line: `@${references.join(",")} ${outline}${text.slice(copied)}`, blobs };
}

export function isOutline(line: string): boolean {
  return line.charCodeAt(0) === 64;
}

/** The original text of an event, to the byte; undefined where a blob is missing. */
export function fromOutline(line: string, read: (hash: string) => string | undefined): string | undefined {
  const start = line.indexOf(" ") + 1;
  let text = "";
  let copied = start;
  for (const reference of line.slice(1, start - 1).split(",")) {
    const colon = reference.indexOf(":");
    const position = start + Number(reference.slice(0, colon));
    const blob = read(reference.slice(colon + 1));
    if (blob === undefined) return undefined;
    text += line.slice(copied, position) + JSON.stringify(blob).slice(1, -1);
    copied = position;
  }
  return text + line.slice(copied);
}

/** Whether a text is the same after encoding to UTF-8 and back. */
function isWellFormed(text: string): boolean {
  return wellFormed.call(text);
}

// Node has it since 20; the ES2023 types do not.
const wellFormed = (String.prototype as unknown as { isWellFormed(this: string): boolean }).isWellFormed;

function closingQuote(text: string, from: number): number {
  let at = text.indexOf('"', from);
  while (isEscaped(text, at)) at = text.indexOf('"', at + 1);
  return at;
}

function isEscaped(text: string, at: number): boolean {
  let slashes = 0;
  while (text.charCodeAt(at - 1 - slashes) === 92) slashes++;
  return slashes % 2 === 1;
}
