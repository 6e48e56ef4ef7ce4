import type { Answer } from "../answer.ts";
import type { Ask, Entry, OfferedTool } from "../ask.ts";
import { asList, asObject, asText, type Json, parseJson } from "../json.ts";
import { toOpenAiFailure, type Wire, type WireRequest } from "../wire.ts";
import { streamResponse, toResponse } from "./responses-stream.ts";

/** OpenAI Responses. */
export const responses: Wire = {
  id: "responses",
  parse,
  stream: streamResponse,
  whole: (ask: Ask, answer: Answer) => toResponse(ask, answer, "completed"),
  streamed: ["context_length"],
  failure: toOpenAiFailure,
};

function parse({ body, bytes }: WireRequest): Ask {
  const input = body["input"];
  const items = typeof input === "string" ? [{ role: "user", content: input }] : asList(input);
  const format = asObject(asObject(body["text"])["format"]);
  const choice = asObject(body["tool_choice"]);
  const entries = items.flatMap(toEntries);
  const system = entries.flatMap((entry) => (entry.by === "system" ? entry.texts : []));
  return {
    model: asText(body["model"]),
    stream: body["stream"] === true,
    system: [asText(body["instructions"]), ...system].join("\n"),
    entries,
    // Tools that a search found or the client added later are in the history, not in the request's list.
    tools: [...asList(body["tools"]), ...items.flatMap(foundTools)].flatMap((tool) => toTools(tool)),
    thinks: true,
    wantsUsage: true,
    bytes,
    ...(choice["type"] === "function" ? { forced: asText(choice["name"]) } : {}),
    ...(format["type"] === "json_schema" ? { schema: format["schema"] } : {}),
    ...(typeof body["prompt_cache_key"] === "string" ? { conversation: body["prompt_cache_key"] } : {}),
  };
}

function toEntries(item: Json): Entry[] {
  const type = asText(item["type"]) || "message";
  if (type === "message") {
    const texts = textsOf(item["content"]);
    if (item["role"] === "assistant") return [{ by: "model", text: texts.join("\n"), calls: [] }];
    return [{ by: item["role"] === "user" ? "user" : "system", texts }];
  }
  if (type === "agent_message") return toTask(item);
  if (type.endsWith("_output")) return [{ by: "tool", texts: textsOf(item["output"]) }];
  if (type.endsWith("_call")) return [{ by: "model", text: "", calls: [toPastCall(item, type)] }];
  return type === "reasoning" ? [{ by: "model", text: "", calls: [] }] : [];
}

/** A message of another agent is a prompt if it gives a new task. Any other message is ignored. */
function toTask(item: Json): Entry[] {
  const [head = "", ...rest] = asList(item["content"]).map(
    (part) => asText(part["text"]) || asText(part["encrypted_content"]),
  );
  return /^Message Type: NEW_TASK$/m.test(head) ? [{ by: "user", texts: rest }] : [];
}

function toPastCall(item: Json, type: string) {
  const { call_id: id, name, arguments: given } = item;
  const input = typeof given === "string" ? parseJson(given) : (given ?? item["input"]);
  return { id: asText(id), name: asText(name) || type, input };
}

function textsOf(content: unknown): string[] {
  if (typeof content === "string") return [content];
  return asList(content)
    .map((part) => asText(part["text"]))
    .filter((text) => text !== "");
}

function foundTools(item: Json): readonly Json[] {
  return item["type"] === "tool_search_output" || item["type"] === "additional_tools"
    ? asList(item["tools"])
    : [];
}

function toTools(tool: Json, namespace?: string): OfferedTool[] {
  const name = asText(tool["name"]) || asText(tool["type"]);
  if (tool["type"] === "namespace") return asList(tool["tools"]).flatMap((inner) => toTools(inner, name));
  const group = namespace === undefined ? {} : { namespace };
  const freeform = tool["type"] === "custom";
  const nested = freeform ? [...asText(tool["description"]).matchAll(NESTED)] : [];
  return [
    { name, freeform, schema: tool["parameters"], ...group },
    ...nested.map(([, inner = "", first = ""]) => ({
      name: inner,
      freeform: first === "input: string",
      within: { name, ...group },
    })),
  ];
}

/** Finds the tools that code can call, in the description of the tool that runs the code. */
const NESTED = /declare const tools: \{ (\w+)\((input: string)?/g;
