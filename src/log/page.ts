import { createHash } from "node:crypto";
import type { SluiceEvent } from "../contract/index.ts";
import type { ReadRange, StoredEvent } from "./port.ts";
import { isOutline } from "./large-texts.ts";
import { fromSegment } from "./segment.ts";
import type { Position, SegmentStore } from "./store.ts";

const PAGE_LENGTH = 8 * 1024 * 1024;
const SCANNED_EVENTS = 8192;

/** The part of a store that a page reads. */
export type SegmentSource = Pick<SegmentStore, "segments" | "blob">;

/** A page of a session's history while it is read, a few segments at a time. */
export class Page {
  readonly events: StoredEvent[] = [];
  /** Whether the page is complete: it has all requested events, is full, or reaches the head. */
  isWhole = false;
  readonly #store: SegmentSource;
  readonly #session: string;
  readonly #position: Position;
  readonly #range: ReadRange;
  readonly #checked: Checked;
  #after: number;
  #length = 0;

  constructor(
    store: SegmentSource,
    session: { id: string; position: Position; checked: Checked },
    range: ReadRange,
  ) {
    this.#store = store;
    this.#session = session.id;
    this.#position = session.position;
    this.#range = range;
    this.#checked = session.checked;
    this.#after = range.after;
  }

  /** The segments that the page needs next. */
  get wanted(): { after: number; limit: number; raw: boolean } {
    const { types, limit, raw = false } = this.#range;
    return { after: this.#after, limit: types ? SCANNED_EVENTS : limit - this.events.length, raw };
  }

  readOn(): void {
    const segments = this.#store.segments(this.#position.ordinal, this.wanted);
    const { types } = this.#range;
    for (const segment of segments) {
      for (const stored of fromSegment(segment, { ...this.#range, after: this.#after }, this.#readBlob)) {
        const event = this.#toReadable(stored);
        if (types && !types.has(event.type)) continue;
        this.#add(event);
        if (this.isWhole) return;
      }
      this.#after = segment.last;
    }
    this.isWhole = segments.length === 0 || this.#after >= this.#position.head;
  }

  #toReadable(event: StoredEvent): StoredEvent {
    const { ordinal } = this.#position;
    if (this.#checked.has(ordinal, event.sequence) && !isOutline(event.body)) return event;
    if (!isReadable(event)) return toDamaged(event, { session: this.#session, before: this.events.at(-1) });
    if (!this.#range.types) this.#checked.add(ordinal, event.sequence);
    return event;
  }

  #add(event: StoredEvent): void {
    this.#length += event.body.length + (event.raw?.length ?? 0);
    const isTooLong = this.events.length > 0 && this.#length > PAGE_LENGTH;
    if (!isTooLong) this.events.push(event);
    this.isWhole = isTooLong || this.events.length === this.#range.limit;
  }

  readonly #readBlob = (hash: string): string | undefined => this.#store.blob(hash);
}

/** The most sessions whose range is remembered. */
const SESSIONS_REMEMBERED = 4096;

/**
 * The ranges of events that this process has found readable. The check costs as much as the reading, so each event is
 * checked once.
 */
export class Checked {
  readonly #ranges = new Map<number, { first: number; last: number }>();

  has(ordinal: number, sequence: number): boolean {
    const range = this.#ranges.get(ordinal);
    return range !== undefined && sequence >= range.first && sequence <= range.last;
  }

  /** Adds an event; the caller adds in the order of reading. */
  add(ordinal: number, sequence: number): void {
    const range = this.#ranges.get(ordinal);
    if (range?.last === sequence - 1) {
      range.last = sequence;
      return;
    }
    if (this.#ranges.size >= SESSIONS_REMEMBERED) this.#ranges.clear();
    this.#ranges.set(ordinal, { first: sequence, last: sequence });
  }
}

/** Whether the stored text is still an event with this sequence and type. */
export function isReadable({ sequence, type, body }: StoredEvent): boolean {
  try {
    const event = JSON.parse(body) as Partial<SluiceEvent> | null;
    return event?.sequence === sequence && event.type === type && typeof event.data === "object";
  } catch {
    return false;
  }
}

/** The replacement of an event that can no longer be read, so that the log has no gap. */
function toDamaged(
  { sequence, body }: StoredEvent,
  { session, before }: { session: string; before: StoredEvent | undefined },
): StoredEvent {
  const type = "agent.unparsed";
  const event: SluiceEvent = {
    sequence,
    type,
    event_id: /"event_id":"(evt_[0-9a-z]+)"/.exec(body)?.[1] ?? `evt_${sequence}`,
    time: timeOf(body) ?? timeOf(before?.body ?? "") ?? new Date(0).toISOString(),
    session_id: session,
    source: "daemon",
    synthetic: true,
    data: {
      error: `Event ${sequence} is damaged in the store. Restore it from a backup; all other events can be read.`,
      location: `log:${sequence}`,
      raw_hash: createHash("sha256").update(body).digest("hex"),
    },
  };
  return { sequence, type, body: JSON.stringify(event) };
}

function timeOf(body: string): string | undefined {
  const [, time] = /"time":"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)"/.exec(body) ?? [];
  return time !== undefined && Number.isFinite(Date.parse(time)) ? time : undefined;
}
