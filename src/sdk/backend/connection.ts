import type { Backend, Link } from "./port.ts";

/** How long an unused connection stays open for the next call. */
const LINGER_MS = 1_000;

/** A connection to a backend. It closes a moment after its last user has left, so that an idle program can exit. */
export class Connection {
  readonly #backend: Backend;
  /** Stops the readers before the connection closes. */
  readonly #onClosing: () => Promise<void>;
  #link: Promise<Link> | undefined;
  #closing: Promise<void> | undefined;
  #users = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(backend: Backend, options: { onClosing: () => Promise<void> }) {
    this.#backend = backend;
    this.#onClosing = options.onClosing;
  }

  async use<T>(task: (link: Link) => Promise<T>): Promise<T> {
    const link = await this.enter();
    try {
      return await task(link);
    } finally {
      this.leave();
    }
  }

  async enter(): Promise<Link> {
    this.#users += 1;
    clearTimeout(this.#timer);
    try {
      await this.#closing;
      this.#link ??= this.#backend.open();
      return await this.#link;
    } catch (error) {
      this.#link = undefined;
      this.leave();
      throw error;
    }
  }

  leave(): void {
    this.#users -= 1;
    if (this.#users > 0 || !this.#link) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.close(), LINGER_MS);
  }

  /** Closes now; with users left, the connection closes after the last one. */
  async close(): Promise<void> {
    clearTimeout(this.#timer);
    if (this.#users > 0) return;
    await this.#closing;
    const link = this.#link;
    if (!link || this.#users > 0) return;
    this.#link = undefined;
    this.#closing = this.#close(link).finally(() => {
      this.#closing = undefined;
    });
    await this.#closing;
  }

  async #close(link: Promise<Link>): Promise<void> {
    await this.#onClosing();
    await (await link).close();
  }
}
