import type { SendMessage, SluiceEvent } from "../contract/index.ts";
import { SluiceClientError } from "./errors.ts";
import { Backoff, IDLE_TIMEOUT_MS, readConnection, type SubscribeOptions } from "./subscribe.ts";
import { type KeyOptions, pathOf, toViewQuery, type Transport } from "./transport.ts";

export type SendOptions = KeyOptions;

export interface SentMessage {
  readonly turnId: string;
}

/** Resolves when the message is durably accepted. The message may then wait for a running turn to end. */
export async function sendMessage(
  transport: Transport,
  session: string,
  message: string | SendMessage,
  options: SendOptions = {},
): Promise<SentMessage> {
  const response = await transport.done(pathOf(session, "messages"), {
    method: "POST",
    json: toBody(message),
    ...options,
  });
  return { turnId: response.headers.get("sluice-turn-id") ?? "" };
}

export type MessageStreamOptions = SendOptions & Omit<SubscribeOptions, "after">;

/**
 * Sends a message and yields the events of its turn. After a cut it repeats the request with the same idempotency key:
 * the server accepts the message once and streams its turn from the start.
 */
export async function* messageStream(
  transport: Transport,
  session: string,
  message: string | SendMessage,
  options: MessageStreamOptions = {},
): AsyncGenerator<SluiceEvent, void> {
  const { signal = new AbortController().signal, idleTimeoutMs = IDLE_TIMEOUT_MS } = options;
  const key = options.idempotencyKey ?? createKey();
  const backoff = new Backoff();
  const open = (connection: AbortSignal): Promise<Response> =>
    transport.call(pathOf(session, "messages/stream"), {
      method: "POST",
      json: toBody(message),
      query: toViewQuery(options),
      headers: { accept: "text/event-stream", "idempotency-key": key },
      signal: connection,
    });
  let last = 0;
  while (!signal.aborted) {
    try {
      for await (const event of readConnection(open, { signal, idleTimeoutMs })) {
        if (event.sequence <= last) continue;
        last = event.sequence;
        backoff.reset();
        yield event;
      }
      return;
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof SluiceClientError) || !error.retryable) throw error;
      options.onCut?.(error);
    }
    await backoff.wait(signal);
  }
}

function toBody(message: string | SendMessage): SendMessage {
  return typeof message === "string" ? { message } : message;
}

/** A random key. Browsers have `randomUUID` only on secure origins. */
function createKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))]
    .map((byte) => byte.toString(16).padStart(2, "0"))
    .join("");
}
