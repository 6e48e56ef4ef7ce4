import type { Chunk } from "./chunk.ts";
import type { Feed } from "./feed.ts";

/** A reader is a cursor and a wake: no queue, and nothing is kept for one that does not ask. */
export class FeedReader<State = unknown, View = unknown> {
  readonly #feed: Feed<State, View>;
  readonly #left: () => void;
  #cursor: number;
  #state: State | undefined;
  #closed = false;
  #wake: () => void = () => {};

  constructor(feed: Feed<State, View>, options: { after: number; onClose: () => void }) {
    this.#feed = feed;
    this.#cursor = options.after;
    this.#left = options.onClose;
  }

  get cursor(): number {
    return this.#cursor;
  }

  /** The next chunk without waiting, where the feed has it at hand. */
  take(): Chunk<State> | undefined {
    const chunk = this.#feed.peek(this.#cursor);
    return chunk && this.#taken(chunk);
  }

  /** The next chunk, or undefined once this reader is closed. Fails when the session is gone or cannot be read. */
  async next(): Promise<Chunk<State> | undefined> {
    while (!this.#closed) {
      const ready = this.take();
      if (ready) return ready;
      if (this.#feed.isBehind(this.#cursor)) {
        return this.#taken(await this.#feed.catchUp(this.#cursor, this.#state));
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
    this.#left();
  }

  #taken(chunk: Chunk<State>): Chunk<State> {
    this.#cursor = chunk.to;
    this.#state = chunk.state;
    return chunk;
  }
}
