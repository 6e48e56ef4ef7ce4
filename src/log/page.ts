import { type Checked, isReadable, toDamaged } from "./damaged.ts";
import { isOutline } from "./outline.ts";
import type { ReadRange, StoredEvent } from "./port.ts";
import { fromSegment } from "./segment.ts";
import type { Place, SegmentStore } from "./store.ts";

const PAGE_LENGTH = 8 * 1024 * 1024;
const SCANNED_EVENTS = 8192;

/** A page of a session's history while it is read, a few segments at a time. */
export class Page {
  readonly events: StoredEvent[] = [];
  /** Whether it holds all that was asked for, or all that there is. */
  isWhole = false;
  readonly #store: SegmentStore;
  readonly #session: string;
  readonly #place: Place;
  readonly #range: ReadRange;
  readonly #checked: Checked;
  #after: number;
  #length = 0;

  constructor(
    store: SegmentStore,
    session: { id: string; place: Place; checked: Checked },
    range: ReadRange,
  ) {
    this.#store = store;
    this.#session = session.id;
    this.#place = session.place;
    this.#range = range;
    this.#checked = session.checked;
    this.#after = range.after;
  }

  readOn(): void {
    const { types, limit, raw = false } = this.#range;
    const wanted = { after: this.#after, limit: types ? SCANNED_EVENTS : limit - this.events.length, raw };
    const segments = this.#store.segments(this.#place.ordinal, wanted);
    for (const segment of segments) {
      for (const stored of fromSegment(segment, { ...this.#range, after: this.#after }, this.#readBlob)) {
        const event = this.#toReadable(stored);
        if (types && !types.has(event.type)) continue;
        this.#add(event);
        if (this.isWhole) return;
      }
      this.#after = segment.last;
    }
    this.isWhole = segments.length === 0 || this.#after >= this.#place.head;
  }

  #toReadable(event: StoredEvent): StoredEvent {
    const { ordinal } = this.#place;
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
