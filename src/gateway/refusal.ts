import type { ServerResponse } from "node:http";
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
