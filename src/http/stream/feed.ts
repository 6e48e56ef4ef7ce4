import { setImmediate as letOthersRun } from "node:timers/promises";
import { SluiceError } from "../../contract/index.ts";
import type { Dialect } from "../../dialects/port.ts";
import type { EventLog, ReadRange, StoredEvent } from "../../log/port.ts";
import { type Chunk, ChunkWindow, type Framing, toChunk } from "./chunk.ts";
import { readStateAt } from "./cursor.ts";

export interface FeedSource<State, View> {
  readonly session: string;
  /** The `ordinal` of the session's row: an id can be used again after its session is deleted. */
  readonly ordinal: number;
  readonly dialect: Dialect<State, View>;
  readonly view: View;
  readonly framing: Framing;
}

export interface FeedLimits {
  /** The size of the recent chunks that readers at the head share. */
  readonly windowBytes: number;
  /** The target size of a chunk; one event may be bigger. */
  readonly chunkBytes: number;
  readonly chunkEvents: number;
}

export const FEED_LIMITS: FeedLimits = {
  windowBytes: 1024 * 1024,
  // Below 128 KB: V8 allocates larger strings apart, at several times the cost.
  chunkBytes: 96 * 1024,
  chunkEvents: 1024,
};

/**
 * One projection of one session, shared by all readers at the head. New events are read, projected and framed once,
 * and every reader writes the same bytes. A feed reads on only when a reader waits.
 */
export class Feed<State, View> {
  readonly #log: EventLog;
  readonly #source: FeedSource<State, View>;
  readonly #limits: FeedLimits;
  readonly #window: ChunkWindow<State>;
  readonly #waiting = new Set<() => void>();
  readonly #closing = new AbortController();
  #head = -1;
  #state: State | undefined;
  #moving = false;
  #failure: { readonly error: unknown } | undefined;
  // Measured with each chunk, so that a chunk of big events has fewer of them.
  #bytesPerEvent = 256;

  constructor(log: EventLog, source: FeedSource<State, View>, limits: FeedLimits) {
    this.#log = log;
    this.#source = source;
    this.#limits = limits;
    this.#window = new ChunkWindow(limits.windowBytes);
  }

  get failed(): boolean {
    return this.#failure !== undefined;
  }

  close(): void {
    this.#closing.abort();
  }

  /** The chunk after this cursor, if it is in the window. */
  peek(cursor: number): Chunk<State> | undefined {
    return this.#window.at(cursor);
  }

  isBehind(cursor: number): boolean {
    return cursor < this.#head;
  }

  /** A chunk for one reader, whose cursor is before the window or inside of a chunk. */
  async catchUp(cursor: number, state: State | undefined): Promise<Chunk<State>> {
    const known = state ?? (await this.#stateAt(cursor));
    const meeting = this.#window.boundaryAfter(cursor) ?? Math.max(this.#head, cursor + 1);
    const chunk = await this.#load(cursor, known, meeting - cursor);
    if (chunk.events > 0) return chunk;
    await this.#assertAlive();
    throw new SluiceError(
      "stream_error",
      `The log has no events after ${cursor}, although it had them before.`,
    );
  }

  /** Calls `wake` when a reader at the head may have more to read. */
  async advance(cursor: number, state: State | undefined, wake: () => void): Promise<void> {
    if (this.#head < cursor && !this.#moving) {
      const known = state ?? (await this.#stateAt(cursor));
      if (this.#head < cursor && !this.#moving) this.#startFrom(cursor, known);
    }
    if (this.#failure) throw this.#failure.error;
    if (cursor < this.#head) return wake();
    this.#waiting.add(wake);
    if (!this.#moving) void this.#move();
  }

  /** Drops the wake of a reader that has left. */
  forget(wake: () => void): void {
    this.#waiting.delete(wake);
  }

  #startFrom(cursor: number, state: State): void {
    this.#window.clear();
    this.#head = cursor;
    this.#state = state;
  }

  async #move(): Promise<void> {
    this.#moving = true;
    try {
      const { session, ordinal } = this.#source;
      await this.#log.moved(session, this.#head, { signal: this.#closing.signal, ordinal });
      if (this.#closing.signal.aborted) return;
      // New events go out at once, before the code that wrote them continues.
      const chunk =
        this.#take(this.#head, this.#state as State) ??
        (await this.#load(this.#head, this.#state as State, this.#limits.chunkEvents));
      if (chunk.events === 0) return await this.#assertAlive();
      this.#window.push(chunk);
      this.#head = chunk.to;
      this.#state = chunk.state;
    } catch (error) {
      if (!this.#closing.signal.aborted) this.#failure = { error };
    } finally {
      this.#moving = false;
      const woken = [...this.#waiting];
      this.#waiting.clear();
      for (const wake of woken) wake();
    }
  }

  /** A few new events from the memory of the log; a backlog is left to `#load`. */
  #take(from: number, state: State): Chunk<State> | undefined {
    const range = this.#range(from, this.#limits.chunkEvents);
    const events = this.#log.peek(this.#source.session, range);
    if (events === undefined || events.length === range.limit) return undefined;
    return this.#toChunk(events, from, state);
  }

  async #load(from: number, state: State, most: number): Promise<Chunk<State>> {
    const range = this.#range(from, most);
    const events = await this.#log.read(this.#source.session, range);
    const chunk = this.#toChunk(events, from, state);
    // A backlog must not block other readers.
    if (events.length === range.limit) await letOthersRun();
    return chunk;
  }

  #range(after: number, most: number): ReadRange {
    const { dialect, view, ordinal } = this.#source;
    const fitting = Math.max(MIN_EVENTS, Math.floor(this.#limits.chunkBytes / this.#bytesPerEvent));
    const limit = Math.min(most, this.#limits.chunkEvents, fitting);
    return { after, limit, raw: dialect.wantsRaw?.(view) ?? false, ordinal };
  }

  #toChunk(events: readonly StoredEvent[], from: number, state: State): Chunk<State> {
    const { dialect, framing } = this.#source;
    const chunk = toChunk(events, { from, state, dialect, framing });
    if (events.length > 0) this.#bytesPerEvent = Math.max(1, chunk.bytes.length / events.length);
    return chunk;
  }

  /** A wake without events means that the session is gone, or that another session has its id. */
  async #assertAlive(): Promise<void> {
    const { session, ordinal } = this.#source;
    const row = await this.#log.find(session);
    if (row?.ordinal === ordinal) return;
    throw new SluiceError("session_not_found", `The session ${session} was deleted.`, { sessionId: session });
  }

  #stateAt(cursor: number): Promise<State> {
    return readStateAt(this.#log, this.#source, cursor);
  }
}

const MIN_EVENTS = 8;
