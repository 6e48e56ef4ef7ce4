import type { IncomingMessage, ServerResponse } from "node:http";
import type { Wire } from "./wire.ts";

/** An answer of the gateway's own. */
export class Refusal extends Error {
  readonly status: number;
  /** A word for the log. */
  readonly code: string;
  readonly retryAfterSeconds: number | undefined;

  /** A cassette's answer is the same however often it is asked. Its text may be in the log. */
  get isFinal(): boolean {
    return this.code.startsWith("cassette_");
  }

  constructor(status: number, code: string, text: string, retryAfterSeconds?: number) {
    super(text);
    this.name = "Refusal";
    this.status = status;
    this.code = code;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/** Answers with an error in the wire's own form. */
export function refuse(response: ServerResponse, wire: Wire, error: unknown): void {
  const refusal =
    error instanceof Refusal
      ? error
      : new Refusal(502, "unreachable", "sluice: the connection to the model provider failed. Try again.");
  const { status, message, retryAfterSeconds } = refusal;
  const text = JSON.stringify(wire.toError(status, message));
  response.writeHead(status, {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(text),
    "sluice-gateway": "refused",
    connection: "close",
    ...(refusal.isFinal ? { "x-should-retry": "false" } : {}),
    ...(retryAfterSeconds === undefined ? {} : { "retry-after": String(retryAfterSeconds) }),
  });
  response.end(text);
}

/** No model takes a longer request. */
export const LONGEST_BODY: number = 64 * 1024 * 1024;

export async function readBody(request: IncomingMessage): Promise<Buffer> {
  const tooLarge = new Refusal(
    413,
    "too_large",
    `sluice: a request to the model has at most ${LONGEST_BODY} bytes.`,
  );
  if (Number(request.headers["content-length"] ?? 0) > LONGEST_BODY) throw tooLarge;
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > LONGEST_BODY) throw tooLarge;
    chunks.push(chunk);
  }
  return chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
}
