import type { EventError, StopReason } from "../contract/index.ts";

/** The error of a failed turn, and the turn's stop reason. */
export interface Failure {
  readonly error: EventError;
  readonly stopReason: StopReason;
}

/** Codes of failures that a retry may overcome. A turn that ends with one has used up the agent's own retries. */
const TRANSIENT: ReadonlySet<string> = new Set(["rate_limited", "overloaded", "server_error", "network"]);

/** Codes of failures that every later turn of the session would repeat. */
const FATAL: ReadonlySet<string> = new Set(["unauthorized", "billing"]);

export function isTransient(code: string): boolean {
  return TRANSIENT.has(code);
}

/** The stop reason of a turn that failed by this code. */
export function stopReasonOf(code: string): StopReason {
  if (isTransient(code)) return "retries_exhausted";
  return FATAL.has(code) ? "model_error" : "end_turn";
}

/** The code of a failed HTTP answer of a model's provider. */
export function codeOfStatus(status: number): string {
  if (status === 401 || status === 403) return "unauthorized";
  if (status === 402) return "billing";
  if (status === 408) return "network";
  if (status === 429) return "rate_limited";
  // An overloaded model answers 529 at Anthropic, 503 at the other providers.
  if (status === 503 || status === 529) return "overloaded";
  return status >= 500 ? "server_error" : "invalid_request";
}
