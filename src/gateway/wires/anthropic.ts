import type { Usage } from "../../contract/index.ts";
import { defined } from "../../contract/own-keys.ts";
import {
  type AnswerFacts,
  asCount,
  asksForSummary,
  asksForTitle,
  asList,
  asName,
  asObject,
  hasTools,
  headerOf,
  type Json,
  type ReadableRequest,
  type RequestFacts,
  textOf,
  type Wire,
} from "../wire.ts";

/** Anthropic Messages. */
export const anthropic: Wire = { id: "anthropic", readRequest, readAnswer, toError };

function readRequest(request: ReadableRequest): RequestFacts {
  const { body, path } = request;
  const retries = headerOf(request, "x-stainless-retry-count");
  return defined({
    model: asName(body["model"]),
    agentId: asName(headerOf(request, "x-claude-code-agent-id")),
    sessionId: asName(headerOf(request, "x-session-id")),
    attempt: retries !== undefined && /^\d{1,3}$/.test(retries) ? Number(retries) + 1 : undefined,
    kind: path.endsWith("/count_tokens") ? ("count" as const) : kindOf(body),
  });
}

function kindOf(body: Json): RequestFacts["kind"] {
  const last = textOf(asList(body["messages"]).at(-1)?.["content"]);
  if (asksForSummary(last)) return "compact";
  if (hasTools(body)) return "turn";
  if (asksForTitle(textOf(body["system"]))) return "title";
  return body["max_tokens"] === 1 ? "probe" : "turn";
}

function readAnswer(before: AnswerFacts, event: Json): AnswerFacts {
  switch (event["type"]) {
    case "message_start":
      return readMessage(before, asObject(event["message"]));
    case "message_delta": {
      const stopReason = asName(asObject(event["delta"])["stop_reason"]);
      return { ...before, ...defined({ stopReason, usage: readUsage(event["usage"], before.usage) }) };
    }
    case "message_stop":
      return { ...before, isDone: true };
    case "message":
      return { ...readMessage(before, event), isDone: true };
    case "error":
      return { ...before, ...defined({ error: asName(asObject(event["error"])["type"]) }), isDone: true };
    default:
      return before;
  }
}

function readMessage(before: AnswerFacts, message: Json): AnswerFacts {
  const facts = {
    model: asName(message["model"]),
    responseId: asName(message["id"]),
    stopReason: asName(message["stop_reason"]),
    usage: readUsage(message["usage"], before.usage),
  };
  return { ...before, ...defined(facts) };
}

/** Later events repeat the counts or leave them out, so the latest value of each counts. */
function readUsage(value: unknown, before: Usage = {}): Usage | undefined {
  const usage = asObject(value);
  const split = asObject(usage["cache_creation"]);
  const latest = {
    input_tokens: asCount(usage["input_tokens"]),
    output_tokens: asCount(usage["output_tokens"]),
    cache_read_tokens: asCount(usage["cache_read_input_tokens"]),
    cache_write_tokens: asCount(usage["cache_creation_input_tokens"]),
    cache_write_1h_tokens: asCount(split["ephemeral_1h_input_tokens"]),
    reasoning_tokens: asCount(asObject(usage["output_tokens_details"])["thinking_tokens"]),
  };
  const merged: Usage = { ...before, ...defined(latest) };
  return Object.keys(merged).length === 0 ? undefined : merged;
}

const TYPES: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
};

function toError(status: number, message: string): Json {
  return { type: "error", error: { type: TYPES[status] ?? "api_error", message } };
}
