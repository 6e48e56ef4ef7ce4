import { setImmediate as nextTurn } from "node:timers/promises";
import type {
  Appended,
  Batch,
  EventLog,
  NewSession,
  ReadRange,
  Remembered,
  SessionRow,
  StoredEvent,
} from "./port.ts";
import { blobMissing, cursorGone, invalidCursor, logClosed, sessionNotFound } from "./refusals.ts";
import { Sealer } from "./seal.ts";
import { fromSegment, toSegments } from "./segment.ts";
import type { ForeignWatch, Place, SegmentStore } from "./store.ts";
import { Tail } from "./tail.ts";
import { Wakes } from "./wakes.ts";

const PAGE_LENGTH = 8 * 1024 * 1024;
const SCANNED_EVENTS = 8192;
const KNOWN_SESSIONS = 4096;
const TAIL_TRUST_MS = 100;

/** The log over any store: what sequence, seal, tail and wake have in common. */
export class StoredLog implements EventLog {
  readonly #store: SegmentStore;
  readonly #watch: ForeignWatch;
  readonly #tail = new Tail();
  readonly #wakes = new Wakes((idle) => this.#watchOthers(!idle));
  readonly #known = new Map<string, Known>();
  #version: number;
  #versionTold: number;
  #versionSeen = performance.now();
  #closed = false;

  constructor(store: SegmentStore) {
    this.#store = store;
    this.#watch = store.watch();
    this.#version = store.version();
    this.#versionTold = this.#version;
  }

  async create(session: NewSession): Promise<SessionRow> {
    this.#mustBeOpen();
    const row = this.#store.create(session);
    this.#forget(session.id);
    return row;
  }

  async find(session: string): Promise<SessionRow | undefined> {
    this.#mustBeOpen();
    return this.#store.find(session);
  }

  async list(page: { before?: number; limit: number }): Promise<SessionRow[]> {
    this.#mustBeOpen();
    return this.#store.list(page);
  }

  async active(): Promise<SessionRow[]> {
    this.#mustBeOpen();
    return this.#store.active();
  }

  async claim(session: string, claim: { owner: string; from: number }): Promise<number> {
    this.#mustBeOpen();
    return this.#store.claim(session, claim);
  }

  async append(session: string, batch: Batch): Promise<Appended> {
    this.#mustBeOpen();
    for (;;) {
      const known = this.#place(session);
      if (known === undefined) throw sessionNotFound(session);
      const first = known.place.head + 1;
      const last = known.place.head + batch.events.length;
      const texts = known.sealer.seal(batch.events, { first, time: batch.time });
      const segments = toSegments(batch.events, texts, first);
      if (!this.#store.commit({ session, place: known.place, batch, segments })) {
        this.#forget(session);
        continue;
      }
      known.place = { ...known.place, head: last };
      this.#tail.extend(session, segments);
      this.#wakes.moved(session, last);
      return { first, last };
    }
  }

  async recall(session: string, key: string): Promise<Remembered | undefined> {
    this.#mustBeOpen();
    return this.#store.recall(session, key);
  }

  peek(session: string, range: ReadRange): StoredEvent[] | undefined {
    if (this.#closed) return undefined;
    if (performance.now() - this.#versionSeen > TAIL_TRUST_MS) this.#lookForOthers();
    const newest = this.#newest(session, range);
    return newest?.length === 0 ? undefined : newest;
  }

  async read(session: string, range: ReadRange): Promise<StoredEvent[]> {
    this.#mustBeOpen();
    if (!Number.isSafeInteger(range.after) || range.after < 0) throw invalidCursor(range.after);
    const newest = this.peek(session, range);
    if (newest !== undefined) return newest;

    this.#lookForOthers();
    const place = this.#place(session)?.place;
    if (place === undefined) throw sessionNotFound(session);
    if (range.after < place.floor || range.after > place.head) throw cursorGone(session, range.after, place);
    if (range.after === place.head) return [];
    return this.#newest(session, range) ?? this.#page(session, place, range);
  }

  async moved(session: string, after: number, options: { signal: AbortSignal }): Promise<void> {
    options.signal.throwIfAborted();
    this.#mustBeOpen();
    this.#lookForOthers();
    const known = this.#place(session);
    if (known === undefined || known.place.head > after) return;
    await this.#wakes.wait(session, after, options.signal);
  }

  async trim(session: string, through: number): Promise<void> {
    this.#mustBeOpen();
    this.#store.trim(session, through);
    this.#forget(session);
  }

  async remove(session: string): Promise<void> {
    this.#mustBeOpen();
    this.#store.remove(session);
    this.#forget(session);
    this.#wakes.removed(session);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#wakes.close(logClosed());
    this.#watch.close();
    this.#tail.clear();
    this.#known.clear();
    this.#store.close();
  }

  #newest(session: string, range: ReadRange): StoredEvent[] | undefined {
    if (this.#known.get(session)?.version !== this.#version) return undefined;
    return this.#tail.read(session, range);
  }

  async #page(session: string, place: Place, range: ReadRange): Promise<StoredEvent[]> {
    const page: StoredEvent[] = [];
    const readBlob = (hash: string, sequence: number): string => {
      const text = this.#store.blob(hash);
      if (text === undefined) throw blobMissing(session, sequence, hash);
      return text;
    };
    let length = 0;
    let after = range.after;
    while (page.length < range.limit && after < place.head) {
      const limit = range.types ? SCANNED_EVENTS : range.limit - page.length;
      const wanted = { after, limit, raw: range.raw ?? false };
      const segments = this.#store.segments(place.ordinal, wanted);
      for (const segment of segments) {
        for (const event of fromSegment(segment, { ...range, after }, readBlob)) {
          length += event.body.length + (event.raw?.length ?? 0);
          if (page.length > 0 && length > PAGE_LENGTH) return page;
          page.push(event);
          if (page.length === range.limit) return page;
        }
        after = segment.last;
      }
      if (segments.length === 0) return page;
      // A filter may skip over a long history; others want to run meanwhile.
      if (range.types) await nextTurn();
      if (this.#closed) throw logClosed();
    }
    return page;
  }

  /** Where a session stands, from memory as long as nobody else has written. */
  #place(session: string): Known | undefined {
    const known = this.#known.get(session);
    if (known?.version === this.#version) return known;
    const place = this.#store.place(session);
    if (known && place && isSame(known.place, place)) {
      known.version = this.#version;
      return known;
    }
    this.#forget(session);
    if (place === undefined) return undefined;
    const fresh = {
      place,
      version: this.#version,
      sealer: new Sealer({ id: session, createdAt: place.createdAt }),
    };
    this.#known.set(session, fresh);
    for (const [oldest] of this.#known) {
      if (this.#known.size <= KNOWN_SESSIONS) break;
      this.#forget(oldest);
    }
    return fresh;
  }

  #forget(session: string): void {
    this.#known.delete(session);
    this.#tail.forget(session);
  }

  #lookForOthers(): void {
    this.#version = this.#store.version();
    this.#versionSeen = performance.now();
  }

  #watchOthers(on: boolean): void {
    if (!on) {
      this.#watch.pause();
      return;
    }
    this.#watch.start(() => {
      this.#lookForOthers();
      if (this.#version === this.#versionTold) return;
      this.#versionTold = this.#version;
      for (const session of this.#wakes.sessions()) {
        const known = this.#place(session);
        if (known) this.#wakes.moved(session, known.place.head);
        else this.#wakes.removed(session);
      }
    });
  }

  #mustBeOpen(): void {
    if (this.#closed) throw logClosed();
  }
}

interface Known {
  place: Place;
  version: number;
  readonly sealer: Sealer;
}

function isSame(a: Place, b: Place): boolean {
  return a.ordinal === b.ordinal && a.head === b.head && a.floor === b.floor;
}
