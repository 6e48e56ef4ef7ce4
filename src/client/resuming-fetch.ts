import type { EventSourceMessage } from "eventsource-parser";
import { fromResponse, toStreamError } from "./errors.ts";
import { Backoff, readBatches } from "./subscribe.ts";

export interface ResumingFetchOptions {
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>;
  /** The maximum count of failed reconnects in a row (default: 10, about half a minute). */
  readonly tries?: number;
}

/**
 * A `fetch` for AG-UI clients that do not reconnect: `new HttpAgent({ url, fetch: createResumingFetch() })`. After a cut
 * the run continues after the last whole frame, also across restarts of the server.
 */
export function createResumingFetch(
  options: ResumingFetchOptions = {},
): (url: string, init: RequestInit) => Promise<Response> {
  const { fetch: call = (url, init) => fetch(url, init), tries = 10 } = options;
  return async (url, init) => {
    const first = await call(url, init);
    if (!isEventStream(first)) return first;
    const { signal = null } = init;
    const reconnect = (last: string | undefined): Promise<Response> => {
      const headers = new Headers(init.headers);
      if (last !== undefined) headers.set("last-event-id", last);
      // The server finds the run of a repeated request by its id and starts no second one.
      return call(url, { ...init, headers });
    };
    const frames = followFrames(first, { reconnect, tries, signal: signal ?? new AbortController().signal });
    const { status, statusText, headers } = first;
    return new Response(toBody(frames), { status, statusText, headers });
  };
}

interface Following {
  readonly reconnect: (last: string | undefined) => Promise<Response>;
  readonly tries: number;
  readonly signal: AbortSignal;
}

async function* followFrames(
  first: Response,
  { reconnect, tries, signal }: Following,
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
    response = await reconnect(last).catch(() => undefined);
    if (!response || isEventStream(response)) continue;
    const refusal = await fromResponse(response);
    response = undefined;
    if (refusal.retryable) continue;
    const detail = `The run cannot be resumed: the server answered ${refusal.status}. ${refusal.message}`;
    throw toStreamError(detail, { cause: refusal, retryable: false });
  }
  throw toStreamError("The connection was cut, and the server does not come back.");
}

/** Yields whole frames, and comments as strings. A partial frame is dropped: the server sends it again. */
async function* readFrames(response: Response): AsyncGenerator<EventSourceMessage | string, void> {
  if (!isEventStream(response)) return void (await response.body?.cancel());
  for await (const batch of readBatches(response.body)) yield* batch;
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

function isTerminal({ data }: EventSourceMessage): boolean {
  return /^\{"type":"RUN_(?:FINISHED|ERROR)"/.test(data);
}
