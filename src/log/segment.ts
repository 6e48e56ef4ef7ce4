import type { EventDraft } from "../contract/index.ts";
import { fromOutline, isBig, isOutline, isWellFormed, toBlob, toOutline, type Blob } from "./large-texts.ts";
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

export function blobsOf(segments: readonly NewSegment[]): Blob[] {
  return segments.flatMap((segment) => segment.blobs);
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

/** One segment of the events from index `from` on: as many as fit. */
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

/** Divides consecutive segments into groups that fit into one segment each. */
export function toGroups<S extends Segment>(segments: readonly S[]): [S, ...S[]][] {
  const groups: [S, ...S[]][] = [];
  let [bodies, raws] = [0, 0];
  for (const segment of segments) {
    const group = groups.at(-1);
    const count = segment.last + 1 - segment.first;
    const rawsLength = (segment.raws?.length ?? count - 1) + 1;
    const isNext = group?.at(-1)?.last === segment.first - 1;
    const fits =
      segment.last - (group?.[0].first ?? 0) < SEGMENT_EVENTS &&
      bodies + segment.bodies.length + 1 <= TEXT_LENGTH &&
      raws + rawsLength <= TEXT_LENGTH;
    if (!group || !isNext || !fits) {
      groups.push([segment]);
      [bodies, raws] = [0, 0];
    } else group.push(segment);
    bodies += segment.bodies.length + 1;
    raws += rawsLength;
  }
  return groups;
}

/** One segment with the events of a group. The first native line of each segment is written out, so they can be joined. */
export function joinGroup(group: readonly [Segment, ...Segment[]]): Segment {
  const [{ first }] = group;
  const { last } = group.at(-1) ?? group[0];
  const bodies = group.map((segment) => segment.bodies).join("\n");
  const hasRaw = group.some(({ raws }) => raws !== null);
  return { first, last, bodies, raws: hasRaw ? group.map(rawEntriesOf).join("\n") : null };
}

function rawEntriesOf({ first, last, raws }: Segment): string {
  return raws ?? "\n".repeat(last - first);
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
 * The stored form of a native line: `=` for the previous line again, `@` and a hash for a large line, `!` and a JSON
 * string for a line that looks like another form or has a newline, else the line itself. Empty where there is no line.
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
