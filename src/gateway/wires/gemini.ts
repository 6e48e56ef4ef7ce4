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
  type Json,
  type ReadableRequest,
  type RequestFacts,
  textOf,
  type Wire,
} from "../wire.ts";

/** Google's Gemini API. */
export const gemini: Wire = { id: "gemini", readRequest, readAnswer, toError };

function readRequest({ body, path }: ReadableRequest): RequestFacts {
  const model = /\/models\/([^/:]+):/.exec(path)?.[1];
  return defined({
    model: asName(model),
    kind: path.endsWith(":countTokens") ? ("count" as const) : kindOf(body),
  });
}

function kindOf(body: Json): RequestFacts["kind"] {
  const system = textOf(asObject(body["systemInstruction"])["parts"]);
  const last = textOf(asList(body["contents"]).at(-1)?.["parts"]);
  if (asksForSummary(last) || asksForSummary(system)) return "compact";
  if (Array.isArray(body["tools"]) && body["tools"].length > 0) return "turn";
  if (asksForTitle(system)) return "title";
  // The router and the check for the next speaker ask for a small JSON.
  return asObject(body["generationConfig"])["responseMimeType"] === "application/json" ? "probe" : "turn";
}

function readAnswer(before: AnswerFacts, event: Json): AnswerFacts {
  const [candidate] = asList(event["candidates"]);
  const stopReason = asName(candidate?.["finishReason"]);
  const facts = {
    model: asName(event["modelVersion"]),
    responseId: asName(event["responseId"]),
    stopReason,
    error: asName(asObject(event["error"])["status"]),
    usage: readUsage(event["usageMetadata"]),
    isDone: stopReason === undefined ? undefined : true,
  };
  return { ...before, ...defined(facts) };
}

function readUsage(value: unknown): Usage | undefined {
  const counts = asObject(value);
  const [prompt, cached] = [asCount(counts["promptTokenCount"]), asCount(counts["cachedContentTokenCount"])];
  const [answer, thoughts] = [asCount(counts["candidatesTokenCount"]), asCount(counts["thoughtsTokenCount"])];
  // Text that a tool of Google's added is input, too.
  const input = prompt === undefined ? undefined : prompt + (asCount(counts["toolUsePromptTokenCount"]) ?? 0);
  const usage: Usage = defined({
    input_tokens: input === undefined ? undefined : Math.max(0, input - (cached ?? 0)),
    output_tokens:
      answer === undefined && thoughts === undefined ? undefined : (answer ?? 0) + (thoughts ?? 0),
    cache_read_tokens: cached,
    reasoning_tokens: thoughts,
  });
  return Object.keys(usage).length === 0 ? undefined : usage;
}

const STATUSES: Readonly<Record<number, string>> = {
  400: "INVALID_ARGUMENT",
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  413: "INVALID_ARGUMENT",
  429: "RESOURCE_EXHAUSTED",
  503: "UNAVAILABLE",
};

function toError(status: number, message: string): Json {
  return { error: { code: status, message, status: STATUSES[status] ?? "INTERNAL" } };
}
