import type { SluiceListeners } from "./builder.ts";
import { type EventsOptions, type StreamedEvent, streamEvents } from "./events.ts";
import { SandboxControls } from "./sandbox-controls.ts";

/** The events of the session: live iteration, and listeners that also get past events. */
export abstract class SessionEvents extends SandboxControls {
  #closed = new AbortController();
  /** One function for each connection that a listener of `replay()` holds open; it releases the connection. */
  #releases: (() => void)[] = [];

  /**
   * Iterates over the events that listeners get, from any sequence of the log on, until the sandbox is killed.
   *
   * @example
   * for await (const event of sluice.events({ after: 0 })) {
   *   if (event.type === "content") console.log(event.sequence, event.event.update.sessionUpdate);
   * }
   */
  async *events(options: EventsOptions = {}): AsyncGenerator<StreamedEvent, void, undefined> {
    const { after, signal: given } = options;
    const signal = AbortSignal.any([this.#closed.signal, ...(given ? [given] : [])]);
    await this.whenOpened(signal);
    if (signal.aborted) return;
    const connection = this.connect();
    const link = await connection.enter();
    try {
      const session = await this.session.open(link);
      for await (const { sequence, emitted } of streamEvents(link, session, { after, signal }))
        for (const part of emitted) yield { sequence, ...part };
    } finally {
      connection.leave();
    }
  }

  /**
   * Adds a listener that also gets the past events, each event once, until `close()` or `kill()`.
   *
   * @example
   * await sluice.replay("content", (event) => render(event));
   */
  async replay<K extends "content" | "lifecycle" | "stdout" | "stderr">(
    type: K,
    listener: (...args: SluiceListeners[K]) => void,
    options: Pick<EventsOptions, "after"> = {},
  ): Promise<this> {
    const attach = this.on.bind(this) as (type: K, listener: (...args: SluiceListeners[K]) => void) => this;
    if (this.session.id === undefined) return attach(type, listener);
    const connection = this.connect();
    const link = await connection.enter();
    this.#releases.push(() => connection.leave());
    const session = await this.session.open(link);
    if (this.session.cursor === 0) return attach(type, listener);
    const done = new AbortController();
    const past = { after: options.after, signal: done.signal };
    for await (const { sequence, emitted } of streamEvents(link, session, past)) {
      for (const part of emitted)
        if (part.type === type)
          (listener as (value: unknown) => void)("event" in part ? part.event : part.chunk);
      // No event is lost: between this check and `attach` there is no await.
      if (sequence >= this.session.cursor) break;
    }
    attach(type, listener);
    done.abort();
    return this;
  }

  protected releaseListeners(): void {
    for (const release of this.#releases.splice(0)) release();
  }

  protected endIterations(): void {
    this.#closed.abort();
    this.#closed = new AbortController();
  }
}
