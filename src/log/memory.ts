import type { SpoolMark } from "../contract/index.ts";
import type { Claim, EventLog, ListPage, NewSession, Remembered, RestingPage, SessionRow } from "./port.ts";
import { fenced, keyTaken, sessionNotFound } from "./refusals.ts";
import { isRetired } from "./removed-sessions.ts";
import { blobsOf, type NewSegment, type Segment } from "./segment.ts";
import type { Commit, ForeignWatch, Position, SegmentStore } from "./store.ts";
import { StoredLog } from "./stored-log.ts";
import { MemoryTurns } from "./kept/turns.ts";
import { MemoryUsage } from "./kept/usage.ts";

const SEGMENTS_A_TIME = 16;

/** A log in memory, lost with its process. */
export function createMemoryLog(): EventLog {
  return new StoredLog(new MemoryStore());
}

class MemoryStore implements SegmentStore {
  readonly turns = new MemoryTurns((ordinal) => this.#ordinals.has(ordinal));
  readonly usage = new MemoryUsage();
  readonly #sessions = new Map<string, MemorySession>();
  readonly #ordinals = new Map<number, MemorySession>();
  /** The last epochs of removed sessions. A new session of the same id starts higher: old writers stay fenced. */
  readonly #fences = new Map<string, number>();
  readonly #blobs = new Map<string, { readonly text: string; uses: number }>();
  #ordinal = 0;

  create(sessions: readonly NewSession[]): (SessionRow | undefined)[] {
    return sessions.map((session) => {
      if (this.#sessions.has(session.id)) return undefined;
      const created = new MemorySession(session, ++this.#ordinal, 1 + (this.#fences.get(session.id) ?? 0));
      this.#sessions.set(session.id, created);
      this.#ordinals.set(created.ordinal, created);
      return created.row();
    });
  }

  find(session: string): SessionRow | undefined {
    return this.#sessions.get(session)?.row();
  }

  list(page: ListPage): SessionRow[] {
    return [...this.#sessions.values()]
      .filter((session) => !isRetired(session.id))
      .filter((session) => page.before === undefined || session.ordinal < page.before)
      .filter((session) => page.tenant === undefined || session.tenant === page.tenant)
      .sort((a, b) => b.ordinal - a.ordinal)
      .slice(0, page.limit)
      .map((session) => session.row());
  }

  resting({ before, byTtl, after, limit }: RestingPage): SessionRow[] {
    const isOver = ({ updatedAt, spec }: SessionRow): boolean =>
      !byTtl || (spec.ttl !== undefined && updatedAt + spec.ttl * 1000 < before);
    return this.#rows((session) => !isRetired(session.id))
      .filter((row) => row.updatedAt < before && isOver(row) && (!after || byRest(row, after) > 0))
      .sort(byRest)
      .slice(0, limit);
  }

  size(): number {
    let size = 0;
    for (const { segments } of this.#sessions.values())
      for (const { bodies, raws } of segments) size += bodies.length + (raws?.length ?? 0);
    for (const { text } of this.#blobs.values()) size += text.length;
    return size;
  }

  active(): SessionRow[] {
    return this.#rows((session) => session.active);
  }

  position(session: string): Position | undefined {
    const found = this.#sessions.get(session);
    return (
      found && { ordinal: found.ordinal, createdAt: found.createdAt, head: found.head, floor: found.floor }
    );
  }

  strayed(believed: ReadonlyMap<string, Position>): string[] {
    return [...believed].flatMap(([session, position]) => {
      const { ordinal, head, floor } = this.position(session) ?? {};
      return ordinal === position.ordinal && head === position.head && floor === position.floor
        ? []
        : [session];
    });
  }

  claim(session: string, claim: Claim): number {
    const found = this.#mustFind(session);
    const isTaken = claim.onlyIdle === true && found.active;
    if (found.epoch !== claim.from || isTaken) throw fenced(session, { ...found, given: claim.from });
    found.epoch++;
    found.owner = claim.owner;
    return found.epoch;
  }

  commit({ session, position, batch, segments }: Commit): boolean {
    const found = this.#ordinals.get(position.ordinal);
    if (found === undefined) return false;
    if (found.epoch !== batch.epoch) throw fenced(session, { ...found, given: batch.epoch });
    if (found.head !== position.head) return false;
    if (batch.key && found.keys.has(batch.key.key)) throw keyTaken(session, batch.key.key);
    // Turned into JSON first: a state that cannot be JSON must fail before anything is stored.
    const snapshot = batch.snapshot === undefined ? undefined : JSON.stringify(batch.snapshot);
    const decoderState =
      batch.spool?.checkpoint === undefined ? undefined : JSON.stringify(batch.spool.checkpoint);

    for (const segment of segments) found.segments.push(this.#keepBlobs(segment));
    found.head += batch.events.length;
    found.updatedAt = batch.time;
    if (batch.active !== undefined) found.active = batch.active;
    if (batch.usage) this.usage.write(found, batch.usage);
    if (batch.history) this.turns.add(found.ordinal, batch.history);
    if (batch.spool) found.mark(batch.spool, decoderState);
    if (snapshot !== undefined) found.snapshot = { at: found.head, state: snapshot };
    if (batch.key)
      found.keys.set(batch.key.key, { fingerprint: batch.key.fingerprint, answer: batch.key.answer });
    return true;
  }

  recall(session: string, key: string): Remembered | undefined {
    return this.#sessions.get(session)?.keys.get(key);
  }

  trim(session: string, through: number): void {
    const found = this.#mustFind(session);
    found.floor = Math.max(found.floor, Math.min(through, found.head));
    const keepFrom = found.segments.findIndex((segment) => segment.last > found.floor);
    const count = keepFrom === -1 ? found.segments.length : keepFrom;
    this.#dropBlobs(found.segments.splice(0, count));
    this.turns.trim(found.ordinal, found.floor);
  }

  remove(session: string): void {
    const found = this.#mustFind(session);
    if (!isRetired(session)) this.#fences.set(session, found.epoch);
    this.#dropBlobs(found.segments);
    this.#sessions.delete(session);
    this.#ordinals.delete(found.ordinal);
    this.turns.remove(found.ordinal);
  }

  retire(session: string, name: string): void {
    const found = this.#mustFind(session);
    found.epoch++;
    found.active = false;
    this.#fences.set(session, found.epoch);
    this.#sessions.delete(session);
    found.id = name;
    this.#sessions.set(name, found);
  }

  retired(): SessionRow[] {
    return this.#rows((session) => isRetired(session.id));
  }

  segments(ordinal: number, range: { after: number; limit: number; raw: boolean }): Segment[] {
    const segments = this.#ordinals.get(ordinal)?.segments ?? [];
    const from = firstAfter(segments, range.after);
    return segments
      .slice(from, from + SEGMENTS_A_TIME)
      .filter((segment) => segment.first <= range.after + range.limit)
      .map(({ first, last, bodies, raws }) => ({ first, last, bodies, raws: range.raw ? raws : null }));
  }

  blob(hash: string): string | undefined {
    return this.#blobs.get(hash)?.text;
  }

  version(): number {
    return 0;
  }

  watch(): ForeignWatch {
    return { start: () => {}, pause: () => {}, close: () => {} };
  }

  close(): void {
    this.#sessions.clear();
    this.#ordinals.clear();
    this.#blobs.clear();
  }

  #rows(isWanted: (session: MemorySession) => boolean): SessionRow[] {
    return [...this.#sessions.values()].filter(isWanted).map((session) => session.row());
  }

  #mustFind(session: string): MemorySession {
    const found = this.#sessions.get(session);
    if (found === undefined) throw sessionNotFound(session);
    return found;
  }

  /** The segment, with shared copies of its blobs. */
  #keepBlobs({ first, last, bodies, raws, blobs }: NewSegment): NewSegment {
    const shared = blobs.map(({ hash, text }) => {
      const kept = this.#blobs.get(hash) ?? { text, uses: 0 };
      kept.uses++;
      this.#blobs.set(hash, kept);
      return { hash, text: kept.text };
    });
    return { first, last, bodies, raws, blobs: shared };
  }

  #dropBlobs(segments: readonly NewSegment[]): void {
    for (const { hash } of blobsOf(segments)) {
      const kept = this.#blobs.get(hash);
      if (kept && --kept.uses === 0) this.#blobs.delete(hash);
    }
  }
}

class MemorySession {
  id: string;
  readonly ordinal: number;
  readonly createdAt: number;
  readonly tenant: string | undefined;
  readonly #spec: string;
  readonly segments: NewSegment[] = [];
  readonly keys = new Map<string, Remembered>();
  updatedAt: number;
  head = 0;
  floor = 0;
  epoch: number;
  owner: string;
  active = false;
  snapshot?: { at: number; state: string };
  #spool?: { process: number; offset: number };
  #decoderState: { at: number; state: string } | undefined;

  constructor(session: NewSession, ordinal: number, epoch: number) {
    this.id = session.id;
    this.epoch = epoch;
    this.ordinal = ordinal;
    this.createdAt = session.time;
    this.updatedAt = session.time;
    this.owner = session.owner;
    this.tenant = session.tenant;
    this.#spec = JSON.stringify(session.spec);
    if (session.key) {
      const { key, fingerprint, answer } = session.key;
      this.keys.set(key, { fingerprint, answer });
    }
  }

  mark(mark: SpoolMark, decoderState: string | undefined): void {
    // The decoder state of another process is void.
    if (this.#spool?.process !== mark.process) this.#decoderState = undefined;
    this.#spool = { process: mark.process, offset: mark.offset };
    if (decoderState !== undefined) this.#decoderState = { at: mark.offset, state: decoderState };
  }

  row(): SessionRow {
    const { id, ordinal, createdAt, updatedAt, head, floor, epoch, owner, active } = this;
    const fields = { id, ordinal, createdAt, updatedAt, head, floor, epoch, owner, active };
    const decoderState = this.#decoderState && {
      checkpoint: JSON.parse(this.#decoderState.state),
      checkpointOffset: this.#decoderState.at,
    };
    return {
      ...fields,
      spec: JSON.parse(this.#spec),
      ...(this.tenant !== undefined && { tenant: this.tenant }),
      ...(this.#spool && { spool: { ...this.#spool, ...decoderState } }),
      ...(this.snapshot && { snapshot: { at: this.snapshot.at, state: JSON.parse(this.snapshot.state) } }),
    };
  }
}

function byRest(a: NonNullable<RestingPage["after"]>, b: NonNullable<RestingPage["after"]>): number {
  return a.updatedAt - b.updatedAt || a.ordinal - b.ordinal;
}

function firstAfter(segments: readonly Segment[], after: number): number {
  let low = 0;
  let high = segments.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((segments[middle]?.last ?? 0) > after) high = middle;
    else low = middle + 1;
  }
  return low;
}
