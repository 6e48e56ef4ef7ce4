import { createParser } from "eventsource-parser";
import type { SluiceEvent } from "../contract/index.ts";
import { SluiceClientError, toStreamError } from "./errors.ts";

/** Yields the events of one connection, and closes it when the iteration ends or `signal` aborts. */
export async function* readConnection(
  open: (signal: AbortSignal) => Promise<Response>,
  options: { signal: AbortSignal; idleTimeoutMs: number; onOpen?: (response: Response) => void },
): AsyncGenerator<SluiceEvent, void> {
  const { signal, idleTimeoutMs, onOpen } = options;
  const connection = new AbortController();
  const hangUp = () => connection.abort(signal.reason);
  signal.addEventListener("abort", hangUp);
  try {
    const response = await withDeadline(open(connection.signal), idleTimeoutMs);
    onOpen?.(response);
    yield* readEventStream(response, { idleTimeoutMs });
  } catch (error) {
    if (error instanceof SluiceClientError) throw error;
    throw toStreamError("The connection was cut.", { cause: error });
  } finally {
    signal.removeEventListener("abort", hangUp);
    connection.abort();
  }
}

/**
 * Yields the events of one SSE response. Silence of `idleTimeoutMs`, without an event or a ping, counts as a cut. The
 * time that the consumer takes does not count.
 */
async function* readEventStream(
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
    // Not awaited, because a hanging connection never resolves it. The caller aborts the connection.
    void reader.cancel().catch(() => {});
  }
}

async function withDeadline<T>(work: Promise<T>, ms: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () => reject(toStreamError(`The connection was silent for ${ms} ms, without a ping.`)),
      ms,
    );
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

export const IDLE_TIMEOUT_MS = 40_000;
const FIRST_MS = 100;
const MOST_MS = 5_000;

/** The pause before a reconnect: 100 ms, doubling to 5 s, with jitter. */
export class Backoff {
  #tries = 0;

  /** Call after a success. */
  reset(): void {
    this.#tries = 0;
  }

  /** Resolves early when `signal` aborts. */
  async wait(signal: AbortSignal): Promise<void> {
    const ceiling = Math.min(MOST_MS, FIRST_MS * 2 ** this.#tries);
    this.#tries += 1;
    await sleep(ceiling * (0.5 + Math.random() / 2), signal);
  }
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const wake = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", wake);
      resolve();
    };
    const timer = setTimeout(wake, ms);
    signal.addEventListener("abort", wake);
  });
}
