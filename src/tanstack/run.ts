import type { StreamChunk } from "@tanstack/ai";
import { SluiceClientError } from "../client/errors.ts";
import { Backoff, readBatches } from "../client/subscribe.ts";
import { type Call, Transport } from "../client/transport.ts";
import { isRecord } from "../contract/index.ts";

/** The maximum count of reconnects in a row without a chunk. */
const TRIES = 8;

/** Yields the chunks of a run, each once and in order, across reconnects. */
export async function* followRun(
  transport: Transport,
  path: string,
  call: Call & { readonly signal: AbortSignal },
  seen?: string,
): AsyncGenerator<PositionedChunk, void> {
  const { signal } = call;
  const backoff = new Backoff();
  let last = seen;
  for (let tries = 0; !signal.aborted;) {
    try {
      const headers = { ...call.headers, accept: "text/event-stream", "last-event-id": last };
      const response = await transport.call(path, { ...call, headers });
      for await (const positioned of readFrames(response)) {
        last = positioned.id ?? last;
        tries = 0;
        backoff.reset();
        yield positioned;
        if (isTerminal(positioned.chunk)) return;
      }
      // A run that ended before the reconnect has no more chunks.
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

/** A chunk, and the id after which a reader resumes. */
export interface PositionedChunk {
  readonly id: string | undefined;
  readonly chunk: StreamChunk;
}

/** The chunks of one response. */
export async function* readFrames(response: Response): AsyncGenerator<PositionedChunk, void> {
  if (!response.body) return;
  for await (const batch of readBatches(response.body))
    for (const message of batch)
      if (typeof message !== "string")
        yield { id: message.id, chunk: JSON.parse(message.data) as StreamChunk };
}

function isTerminal({ type }: StreamChunk): boolean {
  return type === "RUN_FINISHED" || type === "RUN_ERROR";
}

/** Adds the offset in the server's log to a chunk. */
export function withOffset(chunk: StreamChunk, offset: string | undefined): StreamChunk {
  if (offset === undefined) return chunk;
  const metadata: unknown = (chunk as { metadata?: unknown }).metadata;
  return { ...chunk, metadata: { ...(isRecord(metadata) ? metadata : {}), sluice: { offset } } };
}

export function offsetOf(chunk: StreamChunk): string | undefined {
  const { metadata } = chunk as { metadata?: unknown };
  const own = isRecord(metadata) ? metadata["sluice"] : undefined;
  return isRecord(own) && typeof own["offset"] === "string" ? own["offset"] : undefined;
}

/** The server and its agent. */
export interface SluiceServer {
  /** For example `http://127.0.0.1:7411`. */
  readonly baseUrl: string;
  /** The agent of the sessions: `claude`, `codex`, `opencode`, `grok`, `scripted`… */
  readonly agent: string;
  readonly token?: string | undefined;
  readonly fetch?: typeof fetch;
}

export function createTransport({ baseUrl, token, fetch }: SluiceServer): Transport {
  return new Transport({
    url: baseUrl,
    ...(token === undefined ? {} : { token }),
    ...(fetch ? { fetch } : {}),
  });
}

export function pathOf({ agent }: SluiceServer): string {
  return `/ag-ui/${encodeURIComponent(agent)}`;
}
