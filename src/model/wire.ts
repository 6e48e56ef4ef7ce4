import type { Answer, Break, ModelFailure } from "./answer.ts";
import type { Ask } from "./ask.ts";

/** The HTTP API of one model provider: it parses requests and writes answers. Pure. */
export interface Wire {
  readonly id: "anthropic" | "responses" | "chat" | "gemini";
  parse(request: WireRequest): Ask;
  stream(ask: Ask, answer: Answer): Iterable<Frame>;
  whole(ask: Ask, answer: Answer): unknown;
  /** Failures that the API reports within the stream, not by a status. */
  readonly streamed?: readonly ModelFailure[];
  /** `message` replaces the usual text of the failure. */
  failure(failure: ModelFailure, message?: string): HttpFailure;
}

export interface WireRequest {
  readonly body: Readonly<Record<string, unknown>>;
  readonly url: URL;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly bytes: number;
}

/** One piece of a streamed answer: a text, a pause in milliseconds, or a cut of the connection. */
export type Frame = { readonly text: string } | { readonly pause: number } | { readonly cut: true };

export function toFrame(data: unknown, event?: string): Frame {
  return { text: `${event === undefined ? "" : `event: ${event}\n`}data: ${JSON.stringify(data)}\n\n` };
}

/** An event whose data is no JSON. */
function toGarbage(event?: string): Frame {
  return { text: `${event === undefined ? "" : `event: ${event}\n`}data: {this is not JSON\n\n` };
}

/** Yields the frames of a fault. Returns true if the fault ends the stream. `garbage` names the event without JSON. */
export function* breakOff(
  how: Break,
  { garbage, failed }: { garbage?: string; failed: (failure: ModelFailure) => Frame },
): Generator<Frame, boolean> {
  if (how.fault === "garbage") {
    yield toGarbage(garbage);
    return false;
  }
  yield how.fault === "cut" ? { cut: true } : failed(how.failure);
  return true;
}

export const FAILURE_MESSAGES: Record<ModelFailure, string> = {
  overloaded: "The scripted model is overloaded",
  rate_limited: "The scripted model's rate limit is reached",
  bad_gateway: "The scripted model's gateway failed",
  server_error: "The scripted model had an internal error",
  terminal: "The scripted model cannot answer this request",
  unauthorized: "The scripted model does not accept this key",
  context_length: "prompt is too long: 250000 tokens > 200000 maximum",
};

/** An HTTP answer in place of the model's. */
export interface HttpFailure {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: unknown;
}

/** One second, the smallest wait that the header can ask for. */
export const RETRY_AFTER: Readonly<Record<string, string>> = { "retry-after": "1" };

const FAILURES: Record<ModelFailure, [status: number, type: string, code: string | null]> = {
  overloaded: [503, "server_error", "server_is_overloaded"],
  rate_limited: [429, "rate_limit_error", "rate_limit_exceeded"],
  bad_gateway: [502, "server_error", null],
  server_error: [500, "server_error", null],
  terminal: [400, "invalid_request_error", "invalid_prompt"],
  unauthorized: [401, "authentication_error", "invalid_api_key"],
  context_length: [400, "invalid_request_error", "context_length_exceeded"],
};

/** A failure on OpenAI's wires. */
export function toOpenAiFailure(failure: ModelFailure, message = FAILURE_MESSAGES[failure]): HttpFailure {
  const [status, type, code] = FAILURES[failure];
  const body = { error: { message, type, code, param: null } };
  return { status, body, ...(failure === "rate_limited" ? { headers: RETRY_AFTER } : {}) };
}
