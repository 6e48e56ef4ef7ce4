/** How a model's answer can fail before or instead of being said. */
export type ModelFailure =
  | "overloaded"
  | "rate_limited"
  | "bad_gateway"
  | "server_error"
  | "terminal"
  | "unauthorized"
  | "context_length";

export const FAILURE_MESSAGES: Record<ModelFailure, string> = {
  overloaded: "The scripted model is overloaded",
  rate_limited: "The scripted model's rate limit is reached",
  bad_gateway: "The scripted model's gateway failed",
  server_error: "The scripted model had an internal error",
  terminal: "The scripted model cannot answer this request",
  unauthorized: "The scripted model does not accept this key",
  context_length: "prompt is too long: 250000 tokens > 200000 maximum",
};

/** An answer of the HTTP server that is no answer of the model. */
export interface HttpFailure {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: unknown;
}

/** Seconds; the smallest that the header can say. */
export const RETRY_AFTER: Readonly<Record<string, string>> = { "retry-after": "1" };
