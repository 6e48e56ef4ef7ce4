import type { Chunk } from "./chunk.ts";

/** The most recent chunks of a feed, one behind the other, bounded in bytes. */
export class ChunkWindow<State> {
  readonly #bound: number;
  /** By the cursor that each begins at, oldest first. */
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

  /** Where a reader that is not at a chunk's beginning can join: the next chunk's beginning. */
  boundaryAfter(cursor: number): number | undefined {
    for (const chunk of this.#chunks.values()) {
      if (cursor < chunk.from) return chunk.from;
      if (cursor < chunk.to) return chunk.to;
    }
    return undefined;
  }
}

// A chunk without frames has no bytes, and still is not for nothing.
function weigh(chunk: Chunk<unknown>): number {
  return chunk.bytes.length + 512;
}
