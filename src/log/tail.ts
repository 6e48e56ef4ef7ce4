import type { EventDraft } from "../contract/index.ts";
import type { ReadRange, StoredEvent } from "./port.ts";

export interface TailLimits {
  readonly eventsPerSession: number;
  readonly lengthPerSession: number;
  readonly length: number;
}

const LIMITS: TailLimits = {
  eventsPerSession: 2048,
  lengthPerSession: 2 * 1024 * 1024,
  length: 64 * 1024 * 1024,
};

/** The newest events of the sessions that move, shared by all readers at the head. */
export class Tail {
  readonly #limits: TailLimits;
  // In order of use: the first is the one that was idle longest.
  readonly #sessions = new Map<string, SessionTail>();
  #length = 0;

  constructor(limits: TailLimits = LIMITS) {
    this.#limits = limits;
  }

  extend(session: string, events: readonly StoredEvent[], drafts: readonly EventDraft[]): void {
    const first = events[0];
    if (first === undefined) return;
    let tail = this.#sessions.get(session);
    if (tail && tail.head + 1 !== first.sequence) {
      this.forget(session);
      tail = undefined;
    }
    tail ??= new SessionTail(first.sequence);
    const before = tail.length;
    for (const [index, event] of events.entries()) tail.push(event, drafts[index]?.raw);
    tail.shrink(this.#limits);
    this.#length += tail.length - before;
    this.#touch(session, tail);
    for (const [idle] of this.#sessions) {
      if (this.#length <= this.#limits.length) return;
      this.forget(idle);
    }
  }

  /** What it holds of the range, perhaps not all of it; undefined where it does not reach back to `after`. */
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

interface Kept {
  readonly event: StoredEvent;
  readonly raw: string | undefined;
  readonly length: number;
}

class SessionTail {
  #kept: Kept[] = [];
  #dropped = 0;
  #first: number;
  length = 0;

  constructor(first: number) {
    this.#first = first;
  }

  get head(): number {
    return this.#first + this.#kept.length - this.#dropped - 1;
  }

  push(event: StoredEvent, raw: string | undefined): void {
    // Events of one line share the string, so it counts once.
    const isShared = raw !== undefined && raw === this.#kept.at(-1)?.raw;
    const length = event.body.length + (isShared ? 0 : (raw?.length ?? 0));
    this.#kept.push({ event, raw, length });
    this.length += length;
  }

  shrink(limits: TailLimits): void {
    let drop = this.#dropped;
    const floor = this.#kept.length - limits.eventsPerSession;
    while (drop < this.#kept.length && (drop < floor || this.length > limits.lengthPerSession)) {
      this.length -= this.#kept[drop]?.length ?? 0;
      drop++;
    }
    this.#first += drop - this.#dropped;
    this.#dropped = drop;
    if (drop * 2 < this.#kept.length) return;
    this.#kept = this.#kept.slice(drop);
    this.#dropped = 0;
  }

  read(range: ReadRange): StoredEvent[] | undefined {
    if (range.after + 1 < this.#first || range.after > this.head) return undefined;
    const page: StoredEvent[] = [];
    for (let at = this.#dropped + range.after + 1 - this.#first; at < this.#kept.length; at++) {
      if (page.length >= range.limit) break;
      const { event, raw } = this.#kept[at] as Kept;
      if (range.types && !range.types.has(event.type)) continue;
      page.push(range.raw && raw !== undefined ? { ...event, raw } : event);
    }
    return page;
  }
}
