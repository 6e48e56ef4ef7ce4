import { createParser, type EventSourceMessage } from "eventsource-parser";
import type { TestServer } from "./server.ts";

export interface Frame {
  readonly id?: string | undefined;
  readonly event?: string | undefined;
  readonly data: string;
}

/** Reads a session's stream as any SSE client would, to its end or until it has `cutAfter` frames. */
export async function readFrames(
  server: Pick<TestServer, "fetch">,
  session: string,
  options: {
    after: number;
    byHeader?: boolean;
    cutAfter?: number;
    query?: string;
    until?: (frame: Frame) => boolean;
  },
): Promise<Frame[]> {
  const abort = new AbortController();
  const query = `extensions=true${options.query ?? ""}${options.byHeader === true ? "" : `&offset=${options.after}`}`;
  const response = await server.fetch(`/v1/sessions/${session}/events/sse?${query}`, {
    signal: abort.signal,
    headers: options.byHeader === true ? { "last-event-id": String(options.after) } : {},
  });
  if (!response.ok || !response.body) throw new Error(`${response.status} ${await response.text()}`);
  const frames: Frame[] = [];
  const enough = options.cutAfter ?? Number.POSITIVE_INFINITY;
  let isDone = false;
  const parser = createParser({
    onEvent: ({ id, event, data }: EventSourceMessage) => {
      if (isDone) return;
      frames.push({ id, event, data });
      isDone = frames.length >= enough || (options.until?.({ id, event, data }) ?? false);
    },
  });
  const decoder = new TextDecoder();
  const reader = response.body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return frames;
      parser.feed(decoder.decode(value, { stream: true }));
      if (isDone) return frames;
    }
  } finally {
    abort.abort();
  }
}
