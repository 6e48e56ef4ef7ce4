import type { Dialect, Frame } from "../../dialects/port.ts";
import type { StoredEvent } from "../../log/port.ts";

/** Consecutive events of one session in one view, projected and framed once for all readers. */
export interface Chunk<State = unknown> {
  /** The sequence before the first event. */
  readonly from: number;
  /** The sequence of the last event, even if that event has no frame. */
  readonly to: number;
  readonly bytes: Uint8Array;
  readonly events: number;
  readonly frames: number;
  /** The dialect's state after the last event. */
  readonly state: State;
  /** The stream ends after this chunk. */
  readonly last: boolean;
}

/** The form of a frame on the wire. */
export interface Framing {
  readonly id: string;
  /** UTF-8 if absent; `latin1` for binary frames, with one byte in each character. */
  readonly encoding?: "latin1";
  /** `sequence` is that of the event; only the last frame of an event gets it. */
  frame(frame: Frame, sequence: number | undefined): string;
}

export function toChunk<State, View>(
  events: readonly StoredEvent[],
  start: { from: number; state: State; dialect: Dialect<State, View>; framing: Framing },
): Chunk<State> {
  const { dialect, framing } = start;
  let { state, from: to } = start;
  let text = "";
  let frames = 0;
  let last = false;
  for (const event of events) {
    const projected = dialect.project(state, event);
    state = projected.state;
    to = event.sequence;
    const count = projected.frames.length;
    for (let index = 0; index < count; index++) {
      const frame = projected.frames[index] as Frame;
      // A client that is cut between two frames of an event resumes before the event, so only the last has the sequence.
      text += framing.frame(frame, index === count - 1 ? event.sequence : undefined);
    }
    frames += count;
    if (projected.last) {
      last = true;
      break;
    }
  }
  return {
    from: start.from,
    to,
    bytes: Buffer.from(text, framing.encoding ?? "utf8"),
    events: events.length,
    frames,
    state,
    last,
  };
}

/** The most recent chunks of a feed, consecutive and bounded in bytes. */
export class ChunkWindow<State> {
  readonly #bound: number;
  /** Keyed by the cursor before their first event, oldest first. */
  readonly #chunks = new Map<number, Chunk<State>>();
  #bytes = 0;

  constructor(bound: number) {
    this.#bound = bound;
  }

  push(chunk: Chunk<State>): void {
    this.#chunks.set(chunk.from, chunk);
    this.#bytes += weigh(chunk);
    for (const oldest of this.#chunks.values()) {
      if (this.#bytes <= this.#bound || oldest === chunk) return;
      this.#chunks.delete(oldest.from);
      this.#bytes -= weigh(oldest);
    }
  }

  at(cursor: number): Chunk<State> | undefined {
    return this.#chunks.get(cursor);
  }

  clear(): void {
    this.#chunks.clear();
    this.#bytes = 0;
  }

  /** The next start or end of a chunk: there a reader whose cursor is inside of a chunk can join the others. */
  boundaryAfter(cursor: number): number | undefined {
    for (const chunk of this.#chunks.values()) {
      if (cursor < chunk.from) return chunk.from;
      if (cursor < chunk.to) return chunk.to;
    }
    return undefined;
  }
}

// A chunk without frames has no bytes, but still costs memory.
function weigh(chunk: Chunk<unknown>): number {
  return chunk.bytes.length + 512;
}
