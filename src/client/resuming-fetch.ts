import { createParser, type EventSourceMessage } from "eventsource-parser";
import { Backoff } from "./backoff.ts";
import { toStreamError } from "./errors.ts";

export interface ResumingFetchOptions {
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>;
  /** How often in a row nothing may come of coming back; ten take about half a minute. */
  readonly tries?: number;
}

/**
 * A `fetch` for AG-UI clients that do not come back by themselves: `new HttpAgent({ url, fetch: createResumingFetch() })`.
 * A run whose connection is cut goes on behind the last whole frame, across any number of cuts and restarts of the server.
 */
export function createResumingFetch(
  options: ResumingFetchOptions = {},
): (url: string, init: RequestInit) => Promise<Response> {
  const { fetch: call = (url, init) => fetch(url, init), tries = 10 } = options;
  return async (url, init) => {
    const first = await call(url, init);
    if (!isEventStream(first)) return first;
    const { signal = null } = init;
    const again = (last: string | undefined): Promise<Response> => {
      const headers = new Headers(init.headers);
      if (last !== undefined) headers.set("last-event-id", last);
      // The same request: the server knows the run by the id in it, and starts no second one.
      return call(url, { ...init, headers });
    };
    const frames = followFrames(first, { again, tries, signal: signal ?? new AbortController().signal });
    const { status, statusText, headers } = first;
    return new Response(toBody(frames), { status, statusText, headers });
  };
}

interface Following {
  readonly again: (last: string | undefined) => Promise<Response>;
  readonly tries: number;
  readonly signal: AbortSignal;
}

async function* followFrames(
  first: Response,
  { again, tries, signal }: Following,
): AsyncGenerator<string, void> {
  const backoff = new Backoff();
  let response: Response | undefined = first;
  let last: string | undefined;
  for (let failures = 0; failures <= tries; failures += 1) {
    try {
      for await (const frame of response ? readFrames(response) : []) {
        failures = 0;
        backoff.reset();
        if (typeof frame === "string") {
          yield `: ${frame}\n\n`;
          continue;
        }
        last = frame.id ?? last;
        yield toText(frame);
        if (isTerminal(frame)) return;
      }
    } catch (error) {
      if (signal.aborted) throw error;
    }
    await backoff.wait(signal);
    signal.throwIfAborted();
    response = await again(last).catch(() => undefined);
    if (response && !isEventStream(response) && !isPassing(response))
      throw toStreamError(`The run cannot be gone on with: the server answers ${response.status}.`, {
        retryable: false,
      });
  }
  throw toStreamError("The connection was cut, and the server does not come back.");
}

/** The frames that came whole, and comments as texts; what a cut leaves of a frame is dropped, and sent again. */
async function* readFrames(response: Response): AsyncGenerator<EventSourceMessage | string, void> {
  if (!isEventStream(response)) return void (await response.body?.cancel());
  const reader = response.body
    .pipeThrough(new TextDecoderStream() as never)
    .getReader() as ReadableStreamDefaultReader<string>;
  let arrived: (EventSourceMessage | string)[] = [];
  const keep = (frame: EventSourceMessage | string): void => void arrived.push(frame);
  const parser = createParser({ onEvent: keep, onComment: keep });
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      parser.feed(value);
      const frames = arrived;
      arrived = [];
      yield* frames;
    }
  } finally {
    void reader.cancel().catch(() => {});
  }
}

function toText({ event, id, data }: EventSourceMessage): string {
  const lines = [
    ...(event === undefined ? [] : [`event: ${event}`]),
    ...(id === undefined ? [] : [`id: ${id}`]),
    ...data.split("\n").map((line) => `data: ${line}`),
  ];
  return `${lines.join("\n")}\n\n`;
}

function toBody(frames: AsyncGenerator<string, void>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await frames.next();
      if (done) controller.close();
      else controller.enqueue(encoder.encode(value));
    },
    async cancel() {
      await frames.return();
    },
  });
}

function isEventStream(response: Response): response is Response & { body: ReadableStream<Uint8Array> } {
  const kind = response.headers.get("content-type") ?? "";
  return response.ok && response.body !== null && kind.startsWith("text/event-stream");
}

/** A server that is about to be there again. */
function isPassing({ status }: Response): boolean {
  return status === 429 || status >= 500;
}

function isTerminal({ data }: EventSourceMessage): boolean {
  return /^\{"type":"RUN_(?:FINISHED|ERROR)"/.test(data);
}
