import { createParser } from "eventsource-parser";
import { setTimeout as sleep } from "node:timers/promises";
import type { TestServer } from "../support/server.ts";
import type { Chance } from "./chance.ts";

export interface Frame {
  readonly id: string | undefined;
  readonly data: string;
}

export interface Stream {
  readonly path: string;
  readonly headers?: Record<string, string>;
  /** Told of each frame; true says that it is the last. */
  readonly onFrame?: (frame: Frame) => boolean | undefined;
}

/** A client of an event stream. It resumes after its last frame whenever it is cut, and at times reads nothing for seconds. */
export class Listener {
  readonly frames: Frame[] = [];
  /** Resolves at the last frame, when it was stopped, or when the stream has no more frames. */
  readonly ended: Promise<void>;
  readonly #server: TestServer;
  readonly #stream: Stream;
  readonly #chance: Chance | undefined;
  readonly #abort = new AbortController();
  #isOver = false;

  /** Without a chance it never stalls. */
  constructor(server: TestServer, stream: Stream, chance?: Chance) {
    this.#server = server;
    this.#stream = stream;
    this.#chance = chance;
    this.ended = this.#listen();
  }

  stop(): void {
    this.#isOver = true;
    this.#abort.abort();
  }

  async #listen(): Promise<void> {
    for (; !this.#isOver; await sleep(this.#isOver ? 0 : 300)) {
      const cut = new AbortController();
      const signal = AbortSignal.any([cut.signal, this.#abort.signal]);
      await this.#read(signal).catch(() => {});
      cut.abort();
    }
  }

  async #read(signal: AbortSignal): Promise<void> {
    const last = this.frames.at(-1)?.id;
    const headers = { ...this.#stream.headers, ...(last === undefined ? {} : { "last-event-id": last }) };
    const response = await this.#server.fetch(this.#stream.path, { headers, signal });
    // There are no further frames, or all are gone.
    if (response.status === 204 || response.status === 404) this.#isOver = true;
    if (response.status !== 200 || response.body === null) return void (await response.body?.cancel());
    const decoder = new TextDecoder();
    const parser = createParser({
      onEvent: ({ id, data }) => {
        if (this.#isOver) return;
        this.frames.push({ id, data });
        this.#isOver = this.#stream.onFrame?.({ id, data }) ?? false;
      },
    });
    for (const reader = response.body.getReader(); !this.#isOver;) {
      const { done, value } = await reader.read();
      if (done) return;
      parser.feed(decoder.decode(value, { stream: true }));
      if (!this.#chance?.is(0.01)) continue;
      await sleep(this.#chance.below(4_000), undefined, { signal });
      // One in two does not wait for the rest.
      if (this.#chance.is(0.5)) return;
    }
  }
}
