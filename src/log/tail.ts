import type { ReadRange, StoredEvent } from "./port.ts";
import { fromSegment, type NewSegment } from "./segment.ts";

interface TailLimits {
  readonly eventsPerSession: number;
  readonly lengthPerSession: number;
  readonly length: number;
}

const LIMITS: TailLimits = {
  // A few batches of a flood: a reader whose socket is full for a moment still finds its position here.
  eventsPerSession: 16_384,
  lengthPerSession: 1024 * 1024,
  length: 64 * 1024 * 1024,
};

/** The newest events of active sessions, shared by all readers at the head. */
export class Tail {
  readonly #limits: TailLimits;
  // In order of use: the longest idle first.
  readonly #sessions = new Map<string, SessionTail>();
  #length = 0;

  constructor(limits: TailLimits = LIMITS) {
    this.#limits = limits;
  }

  extend(session: string, segments: readonly NewSegment[]): void {
    const first = segments[0]?.first;
    if (first === undefined) return;
    let tail = this.#sessions.get(session);
    if (tail && tail.head + 1 !== first) {
      this.forget(session);
      tail = undefined;
    }
    tail ??= new SessionTail(first);
    const before = tail.length;
    for (const segment of segments) tail.push(segment);
    tail.shrink(this.#limits);
    this.#length += tail.length - before;
    this.#touch(session, tail);
    for (const [idle] of this.#sessions) {
      if (this.#length <= this.#limits.length) return;
      this.forget(idle);
    }
  }

  /** The part of the range that the tail holds; undefined where it does not reach back to `after`. */
  read(session: string, range: ReadRange): StoredEvent[] | undefined {
    const tail = this.#sessions.get(session);
    if (tail === undefined) return undefined;
    const page = tail.read(range);
    if (page !== undefined) this.#touch(session, tail);
    return page;
  }

  forget(session: string): void {
    this.#length -= this.#sessions.get(session)?.length ?? 0;
    this.#sessions.delete(session);
  }

  clear(): void {
    this.#sessions.clear();
    this.#length = 0;
  }

  get length(): number {
    return this.#length;
  }

  #touch(session: string, tail: SessionTail): void {
    this.#sessions.delete(session);
    this.#sessions.set(session, tail);
  }
}

/** The newest segments of one session, as they were committed. A segment is split into events only when it is read. */
class SessionTail {
  readonly #segments: NewSegment[] = [];
  #first: number;
  head: number;
  length = 0;

  constructor(first: number) {
    this.#first = first;
    this.head = first - 1;
  }

  push(segment: NewSegment): void {
    this.#segments.push(segment);
    this.head = segment.last;
    this.length += lengthOf(segment);
  }

  shrink(limits: TailLimits): void {
    while (this.length > limits.lengthPerSession || this.head - this.#first >= limits.eventsPerSession) {
      const oldest = this.#segments.shift();
      if (oldest === undefined) return;
      this.length -= lengthOf(oldest);
      this.#first = oldest.last + 1;
    }
  }

  read(range: ReadRange): StoredEvent[] | undefined {
    const { after, limit } = range;
    if (after + 1 < this.#first || after > this.head) return undefined;
    const page: StoredEvent[] = [];
    for (let at = this.#indexOf(after + 1); at < this.#segments.length; at++) {
      const segment = this.#segments[at] as NewSegment;
      for (const event of fromSegment(segment, range, (hash) => readBlob(segment, hash))) {
        if (page.length >= limit) return page;
        page.push(event);
      }
    }
    return page;
  }

  /** Searches from the end, where readers are. */
  #indexOf(sequence: number): number {
    let at = this.#segments.length;
    while (at > 0 && (this.#segments[at - 1] as NewSegment).last >= sequence) at--;
    return at;
  }
}

function lengthOf({ bodies, raws, blobs }: NewSegment): number {
  return blobs.reduce((sum, { text }) => sum + text.length, bodies.length + (raws?.length ?? 0));
}

function readBlob({ blobs }: NewSegment, hash: string): string {
  return blobs.find((blob) => blob.hash === hash)?.text ?? "";
}
