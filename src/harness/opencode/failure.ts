import { parseOthersJson } from "../../contract/index.ts";
import type { EventData, EventError } from "../../contract/index.ts";
import { codeOfStatus, isTransient, stopReasonOf } from "../failure.ts";
import { isRecord } from "../fields.ts";
import type { NativeError } from "./state.ts";

type Ending = Omit<EventData<"turn.ended">, "turn_id">;

/** OpenCode's error objects: `{name, data: {message, statusCode?, isRetryable?}}`. */
export function toNativeError(value: unknown): NativeError | undefined {
  if (!isRecord(value)) return undefined;
  const data = isRecord(value["data"]) ? value["data"] : {};
  const { message, statusCode, isRetryable } = data;
  const name = typeof value["name"] === "string" ? value["name"] : "UnknownError";
  return {
    name,
    message: typeof message === "string" && message !== "" ? plainWords(message) : name,
    ...(typeof statusCode === "number" ? { status: statusCode } : {}),
    ...(typeof isRetryable === "boolean" ? { isRetryable } : {}),
  };
}

/** The message of a provider's error, which comes as JSON text. */
export function plainWords(message: string): string {
  if (!message.startsWith("{")) return message;
  try {
    const { message: inner } = parseOthersJson(message) as { message?: unknown };
    return typeof inner === "string" && inner !== "" ? inner : message;
  } catch {
    return message;
  }
}

/** The turn's ending for an error of the server. */
export function endingOf(failure: NativeError): Ending {
  if (failure.name === "MessageAbortedError") return { status: "interrupted", stop_reason: "interrupted" };
  if (failure.name === "MessageOutputLengthError") return { status: "completed", stop_reason: "max_tokens" };
  if (failure.name === "ContentFilterError") {
    return { status: "completed", stop_reason: "refusal", details: { reason: failure.message } };
  }
  const error = toEventError(failure);
  return { status: "failed", stop_reason: stopReasonOf(error.code), error };
}

export function toEventError(failure: NativeError): EventError {
  const { message } = failure;
  const code = codeOf(failure);
  return isTransient(code) ? { code, message, retryable: true } : { code, message };
}

/** The code of a failure that is only a text. */
export function codeOfWords(message: string): string {
  if (/\b429\b|rate.?limit|too many requests|quota/i.test(message)) return "rate_limited";
  if (/\b(529|503)\b|overload/i.test(message)) return "overloaded";
  if (/reset|ECONN|EPIPE|socket|network|timed? ?out|fetch failed|terminated|connect/i.test(message))
    return "network";
  return "server_error";
}

function codeOf({ name, message, status, isRetryable }: NativeError): string {
  if (name === "ContextOverflowError") return "context_length";
  if (name === "ProviderAuthError") return "unauthorized";
  if (name !== "APIError") return "internal";
  if (status !== undefined) return codeOfStatus(status);
  return isRetryable === true ? codeOfWords(message) : "internal";
}
