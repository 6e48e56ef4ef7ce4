import {
  type Answer,
  type AnswerUsage,
  inputOf,
  type ModelFailure,
  type Part,
  textOf,
  type ToolCall,
  toPieces,
} from "../answer.ts";
import type { Ask, Entry } from "../ask.ts";
import { asList, asObject, asText, type Json } from "../json.ts";
import {
  breakOff,
  FAILURE_MESSAGES,
  type Frame,
  type HttpFailure,
  RETRY_AFTER,
  toFrame,
  type Wire,
  type WireRequest,
} from "../wire.ts";

/** Anthropic Messages. */
export const anthropic: Wire = { id: "anthropic", parse, stream, whole, failure };

function parse({ body, headers, bytes }: WireRequest): Ask {
  const choice = asObject(body["tool_choice"]);
  const thinking = asObject(body["thinking"])["type"];
  const format = asObject(asObject(body["output_config"])["format"] ?? body["output_format"]);
  const session = headers["x-claude-code-session-id"];
  return {
    model: asText(body["model"]),
    stream: body["stream"] === true,
    system: textsOf(body["system"]).join("\n"),
    entries: asList(body["messages"]).flatMap(toEntries),
    tools: asList(body["tools"]).map((tool) => ({
      name: asText(tool["name"]),
      freeform: false,
      schema: tool["input_schema"],
    })),
    thinks: thinking !== undefined && thinking !== "disabled",
    wantsUsage: true,
    bytes,
    ...(choice["type"] === "tool" ? { forced: asText(choice["name"]) } : {}),
    ...(format["schema"] === undefined ? {} : { schema: format["schema"] }),
    ...(typeof session === "string" ? { conversation: session } : {}),
  };
}

function toEntries({ role, content }: Json): Entry[] {
  const blocks = asList(content);
  if (role === "assistant") {
    const calls = blocks.filter((block) => block["type"] === "tool_use");
    return [
      {
        by: "model",
        text: textsOf(content).join("\n"),
        calls: calls.map(({ id, name, input }) => ({ id: asText(id), name: asText(name), input })),
      },
    ];
  }
  const results = blocks.filter((block) => block["type"] === "tool_result");
  const texts = textsOf(content);
  return [
    ...(results.length === 0
      ? []
      : [{ by: "tool" as const, texts: results.flatMap((result) => textsOf(result["content"])) }]),
    ...(texts.length === 0
      ? []
      : [{ by: role === "system" ? ("system" as const) : ("user" as const), texts }]),
  ];
}

function textsOf(content: unknown): string[] {
  if (typeof content === "string") return [content];
  return asList(content)
    .filter((block) => block["type"] === "text")
    .map((block) => asText(block["text"]));
}

const SIGNATURE = "c2NyaXB0ZWQ=";

function* stream(ask: Ask, answer: Answer): Generator<Frame> {
  const started = { ...toMessage(ask, answer), usage: { ...toUsage(answer.usage), output_tokens: 1 } };
  yield send({ type: "message_start", message: started });
  let index = 0;
  for (const part of answer.parts) {
    if (part.do === "pause") yield { pause: part.ms };
    else if (part.do === "break") {
      if (yield* breakOff(part.how, FAULTS)) return;
    } else {
      if (yield* streamBlock(index, part)) return;
      index += 1;
    }
  }
  yield send({
    type: "message_delta",
    delta: { stop_reason: toStopReason(answer), stop_sequence: null },
    usage: toUsage(answer.usage),
  });
  yield send({ type: "message_stop" });
}

type Block = Exclude<Part, { do: "pause" | "break" }>;

/** Returns true if a fault ends the stream within the block. */
function* streamBlock(index: number, part: Block): Generator<Frame, boolean> {
  const delta = (delta: Json): Frame => send({ type: "content_block_delta", index, delta });
  const start = (content_block: Json): Frame => send({ type: "content_block_start", index, content_block });
  if (part.do === "call") {
    yield start({ ...toToolUse(part.call), input: {} });
    for (const partial_json of toPieces(JSON.stringify(inputOf(part.call))))
      yield delta({ type: "input_json_delta", partial_json });
  } else {
    const thought = part.do === "think";
    yield start(thought ? { type: "thinking", thinking: "", signature: "" } : { type: "text", text: "" });
    for (const piece of part.deltas) {
      if (typeof piece !== "string") {
        if (yield* breakOff(piece, FAULTS)) return true;
      } else if (thought) yield delta({ type: "thinking_delta", thinking: piece });
      else yield delta({ type: "text_delta", text: piece });
    }
    if (thought) yield delta({ type: "signature_delta", signature: SIGNATURE });
  }
  yield send({ type: "content_block_stop", index });
  return false;
}

const FAULTS = {
  garbage: "content_block_delta",
  failed: (kind: ModelFailure): Frame => toFrame(failure(kind).body, "error"),
};

function whole(ask: Ask, answer: Answer): unknown {
  const content = answer.parts.flatMap((part) => {
    if (part.do === "say") return [{ type: "text", text: textOf(part.deltas) }];
    if (part.do === "think")
      return [{ type: "thinking", thinking: textOf(part.deltas), signature: SIGNATURE }];
    return part.do === "call" ? [toToolUse(part.call)] : [];
  });
  return {
    ...toMessage(ask, answer),
    content,
    stop_reason: toStopReason(answer),
    usage: toUsage(answer.usage),
  };
}

function toMessage(ask: Ask, { id }: Answer): Json {
  return {
    id: `msg_${id}`,
    type: "message",
    role: "assistant",
    model: ask.model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
  };
}

function toToolUse(call: ToolCall): Json {
  return { type: "tool_use", id: `toolu_${call.id}`, name: call.name, input: inputOf(call) };
}

function toStopReason({ stop }: Answer): string {
  return { end: "end_turn", calls: "tool_use", refusal: "refusal" }[stop];
}

function toUsage(usage: AnswerUsage): Json {
  return {
    input_tokens: usage.input,
    cache_creation_input_tokens: usage.cacheWrite,
    cache_read_input_tokens: usage.cacheRead,
    output_tokens: usage.output,
    ...(usage.reasoning > 0 ? { output_tokens_details: { thinking_tokens: usage.reasoning } } : {}),
  };
}

const FAILURES: Record<ModelFailure, [status: number, type: string]> = {
  overloaded: [529, "overloaded_error"],
  rate_limited: [429, "rate_limit_error"],
  bad_gateway: [502, "api_error"],
  server_error: [500, "api_error"],
  terminal: [400, "invalid_request_error"],
  unauthorized: [401, "authentication_error"],
  context_length: [400, "invalid_request_error"],
};

function failure(failure: ModelFailure, message = FAILURE_MESSAGES[failure]): HttpFailure {
  const [status, type] = FAILURES[failure];
  const body = { type: "error", error: { type, message }, request_id: "req_scripted" };
  return { status, body, ...(failure === "rate_limited" ? { headers: RETRY_AFTER } : {}) };
}

function send(event: Json & { type: string }): Frame {
  return toFrame(event, event.type);
}
