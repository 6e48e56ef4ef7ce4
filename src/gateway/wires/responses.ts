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

/** OpenAI Responses. */
export const responses: Wire = { id: "responses", readRequest, readAnswer, toError: toOpenAiError };

function readRequest(request: ReadableRequest): RequestFacts {
  const { body, path } = request;
  const turn = parseTurn(headerOf(request, "x-codex-turn-metadata"));
  return defined({
    model: asName(body["model"]),
    agentId: turn["parent_thread_id"] === undefined ? undefined : asName(turn["thread_id"]),
    // Python's truth: any value but these may count.
    isBackground:
      body["background"] === undefined || body["background"] === false || body["background"] === null
        ? undefined
        : (true as const),
    kind: path.endsWith("/compact") ? ("compact" as const) : kindOf(body, turn),
  });
}

function kindOf(body: Json, turn: Json): RequestFacts["kind"] {
  if (turn["request_kind"] === "compaction") return "compact";
  const input = asList(body["input"]);
  const last = textOf(input.at(-1)?.["content"] ?? body["input"]);
  if (asksForSummary(last)) return "compact";
  if (hasTools(body)) return "turn";
  const system = `${textOf(body["instructions"])}\n${textOf(input[0]?.["content"])}`;
  return asksForTitle(system) ? "title" : "turn";
}

function parseTurn(text: string | undefined): Json {
  if (text === undefined || text.length > 16_384) return {};
  try {
    return asObject(JSON.parse(text));
  } catch {
    return {};
  }
}

function readAnswer(before: AnswerFacts, event: Json): AnswerFacts {
  const type = typeof event["type"] === "string" ? event["type"] : "";
  if (event["object"] === "response" || type.startsWith("response.compaction"))
    return { ...readResponse(before, event), isDone: true };
  if (type === "error") return { ...before, ...defined({ error: asName(event["code"]) }), isDone: true };
  if (event["response"] === undefined) {
    return event["error"] === undefined ? before : { ...before, ...defined({ error: errorOf(event) }) };
  }
  const facts = readResponse(before, asObject(event["response"]));
  return ENDS.has(type) ? { ...facts, isDone: true } : facts;
}

const ENDS = new Set(["response.completed", "response.failed", "response.incomplete"]);

function readResponse(before: AnswerFacts, response: Json): AnswerFacts {
  const usage = asObject(response["usage"]);
  const details = asObject(usage["input_tokens_details"]);
  const status = asName(response["status"]);
  const why = asName(asObject(response["incomplete_details"])["reason"]);
  const facts = {
    model: asName(response["model"]),
    responseId: asName(response["id"]),
    stopReason: why ?? (status === "in_progress" ? undefined : status),
    error: errorOf(response),
    usage: toUsage({
      input: usage["input_tokens"],
      cached: details["cached_tokens"],
      written: details["cache_write_tokens"],
      output: usage["output_tokens"],
      reasoning: asObject(usage["output_tokens_details"])["reasoning_tokens"],
    }),
  };
  return { ...before, ...defined(facts) };
}
