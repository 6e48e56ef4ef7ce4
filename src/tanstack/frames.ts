import { createParser } from "eventsource-parser";
import type { StreamChunk } from "@tanstack/ai";

/** A chunk and the place behind which a reader goes on. */
export interface PlacedChunk {
  readonly id: string | undefined;
  readonly chunk: StreamChunk;
}

/** The chunks of one answer, until it ends or breaks. */
export async function* readFrames(response: Response): AsyncGenerator<PlacedChunk, void> {
  const reader = response.body?.getReader();
  if (!reader) return;
  const decoder = new TextDecoder();
  let arrived: PlacedChunk[] = [];
  const parser = createParser({
    onEvent: ({ id, data }) => arrived.push({ id, chunk: JSON.parse(data) as StreamChunk }),
  });
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      parser.feed(decoder.decode(value, { stream: true }));
      const batch = arrived;
      arrived = [];
      yield* batch;
    }
  } finally {
    void reader.cancel().catch(() => {});
  }
}

export function isTerminal({ type }: StreamChunk): boolean {
  return type === "RUN_FINISHED" || type === "RUN_ERROR";
}
