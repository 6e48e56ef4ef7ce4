import type { EventLog } from "../../log/port.ts";
import type { Chunk } from "./chunk.ts";
import { Feed, FEED_LIMITS, type FeedLimits, type FeedSource } from "./feed.ts";

/** One feed for each session and view that has a reader. */
export class Feeds {
  readonly #log: EventLog;
  readonly #limits: FeedLimits;
  readonly #feeds = new Map<string, { feed: Feed<never, never>; readers: number }>();

  constructor(log: EventLog, limits: Partial<FeedLimits> = {}) {
    this.#log = log;
    this.#limits = { ...FEED_LIMITS, ...limits };
  }

  get size(): number {
    return this.#feeds.size;
  }

  open<State, View>(source: FeedSource<State, View>, after: number): FeedReader<State, View> {
    const { session, ordinal, dialect, framing, view } = source;
    const key = JSON.stringify([session, ordinal, dialect.id, framing.id, view]);
    const found = this.#feeds.get(key);
    const entry = found && !found.feed.failed ? found : this.#start(key, source);
    entry.readers += 1;
    const release = this.#log.hold(ordinal);
    const onClose = (): void => {
      release();
      entry.readers -= 1;
      if (entry.readers > 0) return;
      entry.feed.close();
      if (this.#feeds.get(key) === entry) this.#feeds.delete(key);
    };
    return new FeedReader(entry.feed as Feed<State, View>, { after, onClose });
  }

  #start<State, View>(
    key: string,
    source: FeedSource<State, View>,
  ): { feed: Feed<never, never>; readers: number } {
    const feed = new Feed(this.#log, source, this.#limits) as Feed<never, never>;
    const entry = { feed, readers: 0 };
    this.#feeds.set(key, entry);
    return entry;
  }
}

/** A cursor and a wake. A reader has no queue, so a slow one costs no memory. */
export class FeedReader<State = unknown, View = unknown> {
  readonly #feed: Feed<State, View>;
  readonly #onClose: () => void;
  #cursor: number;
  #state: State | undefined;
  #closed = false;
  #wake: () => void = () => {};

  constructor(feed: Feed<State, View>, options: { after: number; onClose: () => void }) {
    this.#feed = feed;
    this.#cursor = options.after;
    this.#onClose = options.onClose;
  }

  get cursor(): number {
    return this.#cursor;
  }

  /** The next chunk, if it needs no waiting. */
  take(): Chunk<State> | undefined {
    const chunk = this.#feed.peek(this.#cursor);
    return chunk && this.#moveTo(chunk);
  }

  /** The next chunk; undefined after `close`. Throws if the session is gone or cannot be read. */
  async next(): Promise<Chunk<State> | undefined> {
    while (!this.#closed) {
      const ready = this.take();
      if (ready) return ready;
      if (this.#feed.isBehind(this.#cursor)) {
        return this.#moveTo(await this.#feed.catchUp(this.#cursor, this.#state));
      }
      await new Promise<void>((resolve, reject) => {
        this.#wake = resolve;
        this.#feed
          .advance(this.#cursor, this.#state, resolve)
          .then(() => this.#closed && this.#feed.forget(resolve))
          .catch(reject);
      });
    }
    return undefined;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#feed.forget(this.#wake);
    this.#wake();
    this.#onClose();
  }

  #moveTo(chunk: Chunk<State>): Chunk<State> {
    this.#cursor = chunk.to;
    this.#state = chunk.state;
    return chunk;
  }
}
