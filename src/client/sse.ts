import { createParser } from "eventsource-parser";
import type { SluiceEvent } from "../contract/index.ts";
import { toStreamError } from "./errors.ts";

/**
 * The events of one SSE answer, until it ends. A connection on which nothing comes for `idleTimeoutMs`
 * (no event and no ping) is as good as cut; the time that the consumer takes does not count.
 */
export async function* readEventStream(
  response: Response,
  options: { idleTimeoutMs: number },
): AsyncGenerator<SluiceEvent, void> {
  const kind = response.headers.get("content-type") ?? "none";
  if (!response.body || !kind.startsWith("text/event-stream")) {
    throw toStreamError(`Expected an event stream, but the answer's content type is ${kind}.`, {
      retryable: false,
    });
  }
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let arrived: string[] = [];
  const parser = createParser({ onEvent: (message) => arrived.push(message.data) });
  try {
    for (;;) {
      const chunk = await withDeadline(reader.read(), options.idleTimeoutMs);
      if (chunk.done) return;
      parser.feed(decoder.decode(chunk.value, { stream: true }));
      const batch = arrived;
      arrived = [];
      for (const data of batch) yield parseEvent(data);
    }
  } finally {
    // Not awaited: a connection that hangs may hang here too, and the caller aborts it anyway.
    void reader.cancel().catch(() => {});
  }
}

export async function withDeadline<T>(work: Promise<T>, ms: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(toStreamError(`Nothing came for ${ms} ms, not even a ping.`)), ms);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

function parseEvent(data: string): SluiceEvent {
  try {
    return JSON.parse(data) as SluiceEvent;
  } catch (error) {
    throw toStreamError(`A frame is not JSON: ${data.slice(0, 200)}`, { cause: error, retryable: false });
  }
}
