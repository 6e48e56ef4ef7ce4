import { own } from "../../contract/ownKeys.ts";
import { parseOthersJson } from "../../contract/index.ts";
import type { EventData, EventError } from "../../contract/index.ts";
import { isRecord } from "../rpc.ts";
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

/** A provider's error comes through as the JSON that it was. */
export function plainWords(message: string): string {
  if (!message.startsWith("{")) return message;
  try {
    const { message: inner } = parseOthersJson(message) as { message?: unknown };
    return typeof inner === "string" && inner !== "" ? inner : message;
  } catch {
    return message;
  }
}

/** What an error of the server makes of the turn. */
export function endingOf(failure: NativeError): Ending {
  if (failure.name === "MessageAbortedError") return { status: "interrupted", stop_reason: "interrupted" };
  if (failure.name === "MessageOutputLengthError") return { status: "completed", stop_reason: "max_tokens" };
  if (failure.name === "ContentFilterError") {
    return { status: "completed", stop_reason: "refusal", details: { reason: failure.message } };
  }
  const error = toEventError(failure);
  return { status: "failed", stop_reason: own(STOPS, error.code) ?? "end_turn", error };
}

export function toEventError(failure: NativeError): EventError {
  const { message } = failure;
  const code = codeOf(failure);
  return TRANSIENT.has(code) ? { code, message, retryable: true } : { code, message };
}

/** What went wrong where only words are left of it. */
export function codeOfWords(message: string): string {
  if (/\b429\b|rate.?limit|too many requests|quota/i.test(message)) return "rate_limited";
  if (/\b(529|503)\b|overload/i.test(message)) return "overloaded";
  if (/reset|ECONN|EPIPE|socket|network|timed? ?out|fetch failed|terminated|connect/i.test(message))
    return "network";
  return "server_error";
}

const TRANSIENT = new Set(["rate_limited", "overloaded", "server_error", "network"]);

const STOPS: Readonly<Record<string, Ending["stop_reason"]>> = {
  rate_limited: "retries_exhausted",
  overloaded: "retries_exhausted",
  server_error: "retries_exhausted",
  network: "retries_exhausted",
  unauthorized: "model_error",
  billing: "model_error",
};

function codeOf({ name, message, status, isRetryable }: NativeError): string {
  if (name === "ContextOverflowError") return "context_length";
  if (name === "ProviderAuthError") return "unauthorized";
  if (name !== "APIError") return "internal";
  if (status === 401 || status === 403) return "unauthorized";
  if (status === 402) return "billing";
  if (status === 429) return "rate_limited";
  if (status === 503 || status === 529) return "overloaded";
  if (status !== undefined && status >= 500) return "server_error";
  if (status !== undefined) return "invalid_request";
  return isRetryable === true ? codeOfWords(message) : "internal";
}
