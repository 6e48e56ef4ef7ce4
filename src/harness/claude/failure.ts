import type { EventError, StopReason } from "../../contract/index.ts";
import { own } from "../../contract/own-keys.ts";
import { codeOfStatus, isTransient, stopReasonOf } from "../failure.ts";
import { type Fields, toCount, toText } from "../fields.ts";

export interface Ending {
  readonly status: "completed" | "failed" | "interrupted";
  readonly stop_reason: StopReason;
  readonly error?: EventError;
}

/** The ending of a result. Its subtype is misleading: an API failure is a "success" with `is_error`. */
export function toEnding(result: Fields, kind = ""): Ending {
  const terminal = toText(result["terminal_reason"]);
  const stop = toText(result["stop_reason"]);
  if (terminal.startsWith("aborted_") || stop === "cancelled") {
    return { status: "interrupted", stop_reason: "interrupted" };
  }
  if (stop === "refusal") return { status: "completed", stop_reason: "refusal" };
  if (stop === "max_tokens") return { status: "completed", stop_reason: "max_tokens" };
  if (result["is_error"] !== true) return { status: "completed", stop_reason: "end_turn" };
  // The CLI continues a few times by itself, and then reports an error.
  if ([kind, result["api_error"]].includes("max_output_tokens")) {
    return { status: "completed", stop_reason: "max_tokens" };
  }
  const message = messageOf(result);
  if (terminal === "max_turns" || result["subtype"] === "error_max_turns") {
    return { status: "failed", stop_reason: "max_turns", error: { code: "max_turns", message } };
  }
  const status =
    toCount(result["api_error_status"]) || Number(/"http_status":\s*(\d{3})/.exec(message)?.[1] ?? 0);
  const type =
    toText(result["api_error_type"]) || kind || (terminal === "api_error" ? "connection_failed" : "");
  const code = toCode({ status, kind: toText(result["api_error"]) || type, terminal, message });
  return {
    status: "failed",
    stop_reason: stopReasonOf(code),
    error: { code, message, ...(isTransient(code) ? { retryable: true } : {}) },
  };
}

/** The code of a failure: by the HTTP status if there is one, else by the CLI's own name for it. */
export function toCode(failure: {
  status: number;
  kind: string;
  terminal?: string;
  message?: string;
}): string {
  const { status, kind, terminal = "", message = "" } = failure;
  if (CONTEXT.has(terminal) || /prompt is too long/i.test(message)) return "context_length";
  if (/no conversation found/i.test(message)) return "conversation_not_found";
  if (/billing|credit balance/i.test(`${kind} ${message}`)) return "billing";
  if (status >= 400) return codeOfStatus(status);
  return own(KINDS, kind) ?? "internal";
}

const CONTEXT = new Set(["prompt_too_long", "blocking_limit", "rapid_refill_breaker"]);

/** The CLI's names of failures. It calls a broken connection "unknown". */
const KINDS: Readonly<Record<string, string>> = {
  authentication_failed: "unauthorized",
  authentication_error: "unauthorized",
  permission_error: "unauthorized",
  oauth_org_not_allowed: "unauthorized",
  account_on_hold: "unauthorized",
  verification_required: "unauthorized",
  cloud_credential_error: "unauthorized",
  rate_limit: "rate_limited",
  rate_limit_error: "rate_limited",
  overloaded: "overloaded",
  overloaded_error: "overloaded",
  server_error: "server_error",
  api_error: "server_error",
  invalid_request: "invalid_request",
  invalid_request_error: "invalid_request",
  model_not_found: "invalid_request",
  connection_failed: "network",
  unknown: "network",
};

function messageOf(result: Fields): string {
  const text = toText(result["result"]);
  if (text !== "") return text;
  const errors = Array.isArray(result["errors"]) ? result["errors"].map(String) : [];
  return errors.join("; ") || "the agent stopped without saying why";
}
