import type { Backend, Link } from "./backend.ts";

/** How long a way stays open that nobody uses: the next call may come soon. */
const LINGER_MS = 1_000;

/** The way to a backend, open while somebody uses it and a moment longer. So a program ends when it has nothing to do. */
export class Connection {
  readonly #backend: Backend;
  /** Before it is closed: whoever reads through it stops. */
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

  /** At once, unless somebody uses it: then the last of them closes it. */
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
