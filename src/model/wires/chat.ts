import {
  type Answer,
  type AnswerUsage,
  inputOf,
  type ModelFailure,
  textOf,
  type ToolCall,
  toPieces,
} from "../answer.ts";
import type { Ask, Entry } from "../ask.ts";
import { asList, asObject, asText, type Json, parseJson } from "../json.ts";
import { breakOff, type Frame, toFrame, toOpenAiFailure, type Wire, type WireRequest } from "../wire.ts";

/** OpenAI Chat Completions, with `reasoning_content`, which other model providers added. */
export const chat: Wire = { id: "chat", parse, stream, whole, failure: toOpenAiFailure };

function parse({ body, headers, bytes }: WireRequest): Ask {
  const forced = asObject(asObject(body["tool_choice"])["function"])["name"];
  const format = asObject(asObject(body["response_format"])["json_schema"])["schema"];
  const session = headers["x-grok-conv-id"] || headers["x-session-id"];
  const entries = asList(body["messages"]).flatMap(toEntries);
  return {
    model: asText(body["model"]),
    stream: body["stream"] === true,
    system: entries.flatMap((entry) => (entry.by === "system" ? entry.texts : [])).join("\n"),
    entries,
    tools: asList(body["tools"]).map((tool) => {
      const declared = asObject(tool["function"]);
      return { name: asText(declared["name"]), freeform: false, schema: declared["parameters"] };
    }),
    thinks: true,
    wantsUsage: asObject(body["stream_options"])["include_usage"] === true,
    bytes,
    ...(typeof forced === "string" ? { forced } : {}),
    ...(format === undefined ? {} : { schema: format }),
    ...(typeof session === "string" ? { conversation: session } : {}),
  };
}

function toEntries({ role, content, tool_calls: calls }: Json): Entry[] {
  const texts = typeof content === "string" ? [content] : asList(content).map((part) => asText(part["text"]));
  if (role === "assistant") {
    const past = asList(calls).map(({ id, function: called }) => {
      const { name, arguments: input } = asObject(called);
      return { id: asText(id), name: asText(name), input: parseJson(asText(input)) };
    });
    return [{ by: "model", text: texts.join("\n"), calls: past }];
  }
  if (role === "tool") return [{ by: "tool", texts }];
  return [{ by: role === "user" ? "user" : "system", texts: texts.filter((text) => text !== "") }];
}

function* stream(ask: Ask, answer: Answer): Generator<Frame> {
  const base = { ...toBase(ask, answer), object: "chat.completion.chunk" };
  const send = (delta: Json, finish_reason: string | null = null): Frame =>
    toFrame({ ...base, choices: [{ index: 0, delta, finish_reason }] });
  yield send({ role: "assistant", content: "" });
  let calls = 0;
  for (const part of answer.parts) {
    if (part.do === "pause") yield { pause: part.ms };
    else if (part.do === "break") {
      if (yield* breakOff(part.how, FAULTS)) return;
    } else if (part.do === "call") {
      const { function: called, ...call } = toCall(part.call);
      const index = calls++;
      yield send({ tool_calls: [{ index, ...call, function: { ...asObject(called), arguments: "" } }] });
      for (const piece of toPieces(asText(asObject(called)["arguments"])))
        yield send({ tool_calls: [{ index, function: { arguments: piece } }] });
    } else {
      for (const piece of part.deltas) {
        if (typeof piece !== "string") {
          if (yield* breakOff(piece, FAULTS)) return;
        } else yield send(part.do === "say" ? { content: piece } : { reasoning_content: piece });
      }
    }
  }
  yield send({}, toFinish(answer));
  if (ask.wantsUsage) yield toFrame({ ...base, choices: [], usage: toUsage(answer.usage) });
  yield { text: "data: [DONE]\n\n" };
}

const FAULTS = { failed: (kind: ModelFailure): Frame => toFrame(toOpenAiFailure(kind).body) };

function whole(ask: Ask, answer: Answer): unknown {
  const spoken = (what: "say" | "think"): string =>
    answer.parts.map((part) => (part.do === what ? textOf(part.deltas) : "")).join("");
  const calls = answer.parts.flatMap((part) => (part.do === "call" ? [toCall(part.call)] : []));
  const thoughts = spoken("think");
  const message = {
    role: "assistant",
    content: spoken("say"),
    ...(thoughts === "" ? {} : { reasoning_content: thoughts }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
  return {
    ...toBase(ask, answer),
    object: "chat.completion",
    choices: [{ index: 0, message, finish_reason: toFinish(answer) }],
    usage: toUsage(answer.usage),
  };
}

/** The time is fixed, so that the same request gets the same bytes. */
function toBase(ask: Ask, { id }: Answer): Json {
  return { id: `chatcmpl-${id}`, created: 1_700_000_000, model: ask.model };
}

function toCall(call: ToolCall): Json {
  const called = { name: call.name, arguments: JSON.stringify(inputOf(call)) };
  return { id: `call_${call.id}`, type: "function", function: called };
}

function toFinish({ stop }: Answer): string {
  return { end: "stop", calls: "tool_calls", refusal: "content_filter" }[stop];
}

function toUsage(usage: AnswerUsage): Json {
  const prompt = usage.input + usage.cacheRead + usage.cacheWrite;
  return {
    prompt_tokens: prompt,
    completion_tokens: usage.output,
    total_tokens: prompt + usage.output,
    prompt_tokens_details: { cached_tokens: usage.cacheRead },
    completion_tokens_details: { reasoning_tokens: usage.reasoning },
  };
}
