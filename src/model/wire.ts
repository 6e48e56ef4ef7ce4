import type { Answer } from "./answer.ts";
import type { Ask } from "./ask.ts";
import type { HttpFailure, ModelFailure } from "./failure.ts";

/** One provider's language: a request in, an answer out. Pure. */
export interface Wire {
  readonly id: "anthropic" | "responses" | "chat" | "gemini";
  parse(request: WireRequest): Ask;
  stream(ask: Ask, answer: Answer): Iterable<Frame>;
  whole(ask: Ask, answer: Answer): unknown;
  /** Failures that the provider tells of in the stream, and not by the status of its answer. */
  readonly streamed?: readonly ModelFailure[];
  /** `message` instead of the failure's own. */
  failure(failure: ModelFailure, message?: string): HttpFailure;
}

export interface WireRequest {
  readonly body: Readonly<Record<string, unknown>>;
  readonly url: URL;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly bytes: number;
}

/** What goes out next: text as it is, a wait, or the end of the connection. */
export type Frame = { readonly text: string } | { readonly pause: number } | { readonly cut: true };

export function toFrame(data: unknown, event?: string): Frame {
  return { text: `${event === undefined ? "" : `event: ${event}\n`}data: ${JSON.stringify(data)}\n\n` };
}

/** An event whose data is no JSON. */
export function toGarbage(event?: string): Frame {
  return { text: `${event === undefined ? "" : `event: ${event}\n`}data: {this is not JSON\n\n` };
}
