import { defined } from "../../contract/own-keys.ts";
import {
  type AnswerFacts,
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
import { errorOf, toOpenAiError, toUsage } from "./openai.ts";

/** OpenAI Chat Completions, and the providers that are compatible with it. */
export const chat: Wire = { id: "chat", readRequest, readAnswer, toError: toOpenAiError };

function readRequest(request: ReadableRequest): RequestFacts {
  const { body } = request;
  const session = headerOf(request, "x-grok-session-id") ?? headerOf(request, "x-session-id");
  return defined({ model: asName(body["model"]), sessionId: asName(session), kind: kindOf(body) });
}

function kindOf(body: Json): RequestFacts["kind"] {
  const messages = asList(body["messages"]);
  const [first] = messages;
  if (asksForSummary(textOf(messages.at(-1)?.["content"]))) return "compact";
  if (hasTools(body)) return "turn";
  return asksForTitle(textOf(first?.["content"])) ? "title" : "turn";
}

/** The counts come with the last chunk or in one of their own after it; `[DONE]` is no JSON and ends the stream. */
function readAnswer(before: AnswerFacts, event: Json): AnswerFacts {
  const [choice] = asList(event["choices"]);
  const usage = asObject(event["usage"]);
  const details = asObject(usage["prompt_tokens_details"]);
  const facts = {
    model: asName(event["model"]),
    responseId: asName(event["id"]),
    stopReason: asName(choice?.["finish_reason"]),
    error: errorOf(event),
    usage: toUsage({
      input: usage["prompt_tokens"],
      cached: details["cached_tokens"],
      written: details["cache_write_tokens"],
      output: usage["completion_tokens"],
      reasoning: asObject(usage["completion_tokens_details"])["reasoning_tokens"],
    }),
  };
  const isWhole = event["object"] === "chat.completion";
  return { ...before, ...defined(facts), ...(isWhole ? { isDone: true } : {}) };
}
