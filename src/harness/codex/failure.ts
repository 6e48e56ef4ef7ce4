import { parseOthersJson } from "../../contract/index.ts";
import { codeOfStatus, type Failure, isTransient, stopReasonOf } from "../failure.ts";
import { asText, defined, isRecord, toFields } from "../fields.ts";

export interface CodexFailure extends Failure {
  readonly details?: unknown;
}

/** An error of Codex: `{message, codexErrorInfo, additionalDetails}`. `exec` has only the message. */
export function toFailure(value: unknown): CodexFailure {
  const error = toFields(value);
  const text = typeof error["message"] === "string" ? error["message"] : "Codex failed without a message";
  const provider = providerError(text);
  const message = provider.message ?? text;
  const info = infoOf(error["codexErrorInfo"]);
  const status = info.status ?? statusIn(text);
  const more = error["additionalDetails"];
  const details = typeof more === "string" ? { details: { additionalDetails: more } } : {};
  if (/reason: max_output_tokens/.test(text)) {
    return { error: { code: "max_tokens", message }, stopReason: "max_tokens", ...details };
  }
  if (/reason: content_filter/.test(text) || REFUSALS.has(info.name)) {
    return { error: { code: "refusal", message }, stopReason: "refusal", ...details };
  }
  const code = codeOf({ name: info.name, status, text, providerCode: provider.code });
  return {
    error: { code, message, retryable: isTransient(code) },
    stopReason: stopReasonOf(code),
    ...details,
  };
}

const REFUSALS = new Set(["cyberPolicy", "misalignmentPolicyViolation"]);

const CODES: Readonly<Record<string, string>> = {
  contextWindowExceeded: "context_length",
  sessionBudgetExceeded: "invalid_request",
  usageLimitExceeded: "rate_limited",
  rateLimitExceeded: "rate_limited",
  flexUnavailable: "overloaded",
  serverOverloaded: "overloaded",
  policyCapacityUnavailable: "overloaded",
  internalServerError: "server_error",
  unauthorized: "unauthorized",
  badRequest: "invalid_request",
  modelNotFound: "invalid_request",
};

function codeOf(told: {
  name: string;
  status: number | undefined;
  text: string;
  providerCode: string | undefined;
}): string {
  const { name, status, text, providerCode } = told;
  if (providerCode === "context_length_exceeded") return "context_length";
  if (providerCode === "insufficient_quota" || /check your plan and billing/i.test(text)) return "billing";
  const byName = Object.hasOwn(CODES, name) ? CODES[name] : undefined;
  if (byName !== undefined) return byName;
  if (status !== undefined) return codeOfStatus(status);
  // Codex's text for a 5xx after its last attempt. `exec` passes on nothing else.
  if (/experiencing high demand/.test(text)) return "server_error";
  if (NETWORK.has(name) || /stream (disconnected|closed)|network error|error sending request/i.test(text))
    return "network";
  // Codex has no name for a provider's 400, and other failures without a name are rare at a turn's end.
  return name === "other" || providerCode === "invalid_request_error" ? "invalid_request" : "internal";
}

const NETWORK = new Set([
  "httpConnectionFailed",
  "responseStreamConnectionFailed",
  "responseStreamDisconnected",
  "responseTooManyFailedAttempts",
]);

/** `"name"` or `{name: {httpStatusCode}}`. */
function infoOf(value: unknown): { name: string; status?: number } {
  if (typeof value === "string") return { name: value };
  const [name = "", inner] = isRecord(value) ? (Object.entries(value)[0] ?? []) : [];
  const status = isRecord(inner) ? inner["httpStatusCode"] : undefined;
  return typeof status === "number" ? { name, status } : { name };
}

function statusIn(text: string): number | undefined {
  const found = /(?:status|HTTP|error)[: ]+(4\d\d|5\d\d)\b/i.exec(text)?.[1];
  return found === undefined ? undefined : Number(found);
}

/** Codex passes a provider's refusal on as the JSON text of its body. */
function providerError(text: string): { message?: string; code?: string } {
  const start = text.indexOf("{");
  if (start < 0) return {};
  try {
    const value: unknown = parseOthersJson(text.slice(start));
    const error = isRecord(value) ? value["error"] : undefined;
    if (!isRecord(error)) return {};
    const { message, code, type } = error;
    return defined({ message: asText(message), code: asText(code) ?? asText(type) });
  } catch {
    return {};
  }
}
