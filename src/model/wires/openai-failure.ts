import { FAILURE_MESSAGES, type HttpFailure, type ModelFailure, RETRY_AFTER } from "../failure.ts";

const FAILURES: Record<ModelFailure, [status: number, type: string, code: string | null]> = {
  overloaded: [503, "server_error", "server_is_overloaded"],
  rate_limited: [429, "rate_limit_error", "rate_limit_exceeded"],
  bad_gateway: [502, "server_error", null],
  server_error: [500, "server_error", null],
  terminal: [400, "invalid_request_error", "invalid_prompt"],
  unauthorized: [401, "authentication_error", "invalid_api_key"],
  context_length: [400, "invalid_request_error", "context_length_exceeded"],
};

/** As both of OpenAI's wires say it. */
export function toOpenAiFailure(failure: ModelFailure, message = FAILURE_MESSAGES[failure]): HttpFailure {
  const [status, type, code] = FAILURES[failure];
  const body = { error: { message, type, code, param: null } };
  return { status, body, ...(failure === "rate_limited" ? { headers: RETRY_AFTER } : {}) };
}
