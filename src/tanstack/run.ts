import { Backoff } from "../client/backoff.ts";
import { SluiceClientError } from "../client/errors.ts";
import type { Call, Transport } from "../client/transport.ts";
import { isTerminal, type PlacedChunk, readFrames } from "./frames.ts";

/** How often nothing may come of coming back. */
const TRIES = 8;

/** Every chunk of a run, each once and in order, across any number of cuts: whoever comes back goes on. */
export async function* followRun(
  transport: Transport,
  path: string,
  call: Call & { readonly signal: AbortSignal },
  seen?: string,
): AsyncGenerator<PlacedChunk, void> {
  const { signal } = call;
  const backoff = new Backoff();
  let last = seen;
  for (let tries = 0; !signal.aborted;) {
    try {
      const headers = { ...call.headers, accept: "text/event-stream", "last-event-id": last };
      const response = await transport.call(path, { ...call, headers });
      for await (const placed of readFrames(response)) {
        last = placed.id ?? last;
        tries = 0;
        backoff.reset();
        yield placed;
        if (isTerminal(placed.chunk)) return;
      }
      // A run that was over when we came has nothing more to tell.
      if (last !== undefined && tries > 0) return;
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof SluiceClientError && !error.retryable) throw error;
      if (tries >= TRIES) throw error;
    }
    tries += 1;
    await backoff.wait(signal);
  }
}
