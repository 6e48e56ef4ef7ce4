import type { SluiceEvent } from "../contract/index.ts";
import { type ContentState, projectContent, type Told } from "../dialects/content/index.ts";
import type { Link } from "./backend.ts";
import type { Beginning } from "./beginning.ts";

export interface FollowerOptions {
  readonly session: string;
  readonly beginning: Beginning;
  /** Up to here it only learns what is open, and tells nobody. */
  readonly quietUntil?: number;
  readonly onEvent: (event: SluiceEvent, told: readonly Told[], state: ContentState) => void;
  /** Nothing more will come: the session has ended, or its log cannot be followed any more. */
  readonly onEnd: (error?: unknown) => void;
}

/** Reads one session's log as it grows. It may be stopped and started again; it goes on where it was. */
export class Follower {
  readonly #options: FollowerOptions;
  #state: ContentState;
  #cursor: number;
  #abort: AbortController | undefined;
  #done: Promise<void> = Promise.resolve();
  /** The session has ended. */
  #isOver = false;
  #waiting: { sequence: number; wake: () => void }[] = [];

  constructor(options: FollowerOptions) {
    this.#options = options;
    this.#cursor = options.beginning.after;
    this.#state = options.beginning.state;
  }

  get state(): ContentState {
    return this.#state;
  }

  /** The last sequence that was seen. */
  get cursor(): number {
    return this.#cursor;
  }

  start(link: Link): void {
    if (this.#abort || this.#isOver) return;
    const abort = new AbortController();
    this.#abort = abort;
    this.#done = this.#follow(link, abort.signal).finally(() => {
      if (this.#abort === abort) this.#abort = undefined;
      for (const { wake } of this.#waiting.splice(0)) wake();
    });
  }

  async stop(): Promise<void> {
    this.#abort?.abort();
    await this.#done;
  }

  /** Resolves when all up to this sequence was seen, or nothing more will come. */
  async reached(sequence: number): Promise<void> {
    if (this.#cursor >= sequence || !this.#abort) return;
    await new Promise<void>((wake) => this.#waiting.push({ sequence, wake }));
  }

  /** Resolves when the session has ended. */
  finished(): Promise<void> {
    return this.#done;
  }

  async #follow(link: Link, signal: AbortSignal): Promise<void> {
    try {
      const { session } = this.#options;
      for await (const event of link.follow(session, { after: this.#cursor, signal })) {
        if (signal.aborted) return;
        this.#see(event);
      }
      if (signal.aborted) return;
      this.#isOver = true;
      this.#options.onEnd();
    } catch (error) {
      if (!signal.aborted) this.#options.onEnd(error);
    }
  }

  #see(event: SluiceEvent): void {
    const { state, told } = projectContent(this.#state, event);
    this.#state = state;
    this.#cursor = event.sequence;
    if (event.sequence > (this.#options.quietUntil ?? 0)) this.#options.onEvent(event, told, state);
    const ready = this.#waiting.filter(({ sequence }) => sequence <= this.#cursor);
    this.#waiting = this.#waiting.filter(({ sequence }) => sequence > this.#cursor);
    for (const { wake } of ready) wake();
  }
}
