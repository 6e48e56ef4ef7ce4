import type { EventLog } from "../log/port.ts";
import { Feed, FEED_LIMITS, type FeedLimits, type FeedSource } from "./feed.ts";
import { FeedReader } from "./reader.ts";

/** One feed per session and view, for as long as somebody reads it. */
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
    const letGo = this.#log.hold(ordinal);
    const onClose = (): void => {
      letGo();
      entry.readers -= 1;
      if (entry.readers > 0) return;
      entry.feed.close();
      if (this.#feeds.get(key) === entry) this.#feeds.delete(key);
    };
    return new FeedReader(entry.feed as unknown as Feed<State, View>, { after, onClose });
  }

  #start<State, View>(
    key: string,
    source: FeedSource<State, View>,
  ): { feed: Feed<never, never>; readers: number } {
    const feed = new Feed(this.#log, source, this.#limits) as unknown as Feed<never, never>;
    const entry = { feed, readers: 0 };
    this.#feeds.set(key, entry);
    return entry;
  }
}
