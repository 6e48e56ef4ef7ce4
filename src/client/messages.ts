import type { SendMessage, SluiceEvent } from "../contract/index.ts";
import { Backoff } from "./backoff.ts";
import { SluiceClientError, toStreamError } from "./errors.ts";
import { pathOf, toViewQuery } from "./paths.ts";
import { readEventStream, withDeadline } from "./sse.ts";
import type { SubscribeOptions } from "./subscribe.ts";
import type { CallOptions, Transport } from "./transport.ts";

export interface SendOptions extends CallOptions {
  /** A resend with the same key is a no-op that gets the first answer. */
  readonly idempotencyKey?: string;
}

export interface SentMessage {
  readonly turnId: string;
}

/** Resolves once the message is durably accepted; it may wait behind a running turn. */
export async function sendMessage(
  transport: Transport,
  session: string,
  message: string | SendMessage,
  options: SendOptions = {},
): Promise<SentMessage> {
  const response = await transport.done(pathOf(session, "messages"), {
    method: "POST",
    json: toBody(message),
    headers: { "idempotency-key": options.idempotencyKey },
    signal: options.signal,
  });
  return { turnId: response.headers.get("sluice-turn-id") ?? "" };
}

export type MessageStreamOptions = SendOptions & Omit<SubscribeOptions, "after">;

/**
 * Sends a message and yields the events of its turn. A cut is healed by sending it again under the same
 * idempotency key: the server accepts it once, and streams that one turn from its start each time.
 */
export async function* messageStream(
  transport: Transport,
  session: string,
  message: string | SendMessage,
  options: MessageStreamOptions = {},
): AsyncGenerator<SluiceEvent, void> {
  const { signal = new AbortController().signal, idleTimeoutMs = 40_000 } = options;
  const key = options.idempotencyKey ?? createKey();
  const backoff = new Backoff();
  let last = 0;
  while (!signal.aborted) {
    const connection = new AbortController();
    const hangUp = () => connection.abort(signal.reason);
    signal.addEventListener("abort", hangUp);
    try {
      const sent = transport.call(pathOf(session, "messages/stream"), {
        method: "POST",
        json: toBody(message),
        query: toViewQuery(options),
        headers: { accept: "text/event-stream", "idempotency-key": key },
        signal: connection.signal,
      });
      for await (const event of readEventStream(await withDeadline(sent, idleTimeoutMs), { idleTimeoutMs })) {
        if (event.sequence <= last) continue;
        last = event.sequence;
        backoff.reset();
        yield event;
      }
      return;
    } catch (error) {
      if (signal.aborted) return;
      const cut =
        error instanceof SluiceClientError
          ? error
          : toStreamError("The connection was cut.", { cause: error });
      if (!cut.retryable) throw cut;
      options.onCut?.(cut);
    } finally {
      signal.removeEventListener("abort", hangUp);
      connection.abort();
    }
    await backoff.wait(signal);
  }
}

function toBody(message: string | SendMessage): SendMessage {
  return typeof message === "string" ? { message } : message;
}

// Not randomUUID: browsers have it only on secure origins.
function createKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))]
    .map((byte) => byte.toString(16).padStart(2, "0"))
    .join("");
}
