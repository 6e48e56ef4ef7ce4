import {
  type Answer,
  type AnswerUsage,
  type Break,
  type Delta,
  type Part,
  textOf,
  type ToolCall,
  toPieces,
} from "../answer.ts";
import type { Ask } from "../ask.ts";
import { asObject, asText, type Json } from "../json.ts";
import { breakOff, type Frame, toFrame, toOpenAiFailure } from "../wire.ts";

export function streamResponse(ask: Ask, answer: Answer): Generator<Frame> {
  return new ResponseStream(ask, answer).frames();
}

/** One response as a stream of numbered events. */
class ResponseStream {
  readonly #ask: Ask;
  readonly #answer: Answer;
  #sent = 0;
  #items = 0;

  constructor(ask: Ask, answer: Answer) {
    this.#ask = ask;
    this.#answer = answer;
  }

  *frames(): Generator<Frame> {
    const response = toResponse(this.#ask, this.#answer, "in_progress");
    yield this.#send("response.created", { response });
    yield this.#send("response.in_progress", { response });
    for (const part of this.#answer.parts) {
      if (part.do === "pause") yield { pause: part.ms };
      else if (part.do === "break") {
        if (yield* this.#breakOff(part.how)) return;
      } else if (yield* this.#item(part)) return;
    }
    yield this.#send("response.completed", { response: toResponse(this.#ask, this.#answer, "completed") });
  }

  /** Returns true if a fault ends the stream within the item. */
  *#item(part: ItemPart): Generator<Frame, boolean> {
    const output_index = this.#items++;
    const item = toItem(this.#answer, part, output_index);
    const at = { item_id: item.id, output_index };
    yield this.#send("response.output_item.added", { output_index, item: toOpened(item) });
    if (yield* this.#content(part, at, item)) return true;
    yield this.#send("response.output_item.done", { output_index, item });
    return false;
  }

  #content(part: ItemPart, at: Json, item: Json): Generator<Frame, boolean> {
    if (part.do === "call") return this.#call(at, item);
    return part.do === "say" ? this.#message(at, part.deltas) : this.#reasoning(at, part.deltas);
  }

  *#message(at: Json, deltas: readonly Delta[]): Generator<Frame, boolean> {
    const where = { ...at, content_index: 0 };
    yield this.#send("response.content_part.added", { ...where, part: toContent("") });
    for (const delta of deltas) {
      if (typeof delta === "string") {
        yield this.#send("response.output_text.delta", { ...where, delta, logprobs: [] });
      } else if (yield* this.#breakOff(delta)) return true;
    }
    const text = textOf(deltas);
    yield this.#send("response.output_text.done", { ...where, text, logprobs: [] });
    yield this.#send("response.content_part.done", { ...where, part: toContent(text) });
    return false;
  }

  *#reasoning(at: Json, deltas: readonly Delta[]): Generator<Frame, boolean> {
    const where = { ...at, summary_index: 0 };
    yield this.#send("response.reasoning_summary_part.added", { ...where, part: toSummary("") });
    for (const delta of deltas) {
      if (typeof delta === "string") {
        yield this.#send("response.reasoning_summary_text.delta", { ...where, delta });
      } else if (yield* this.#breakOff(delta)) return true;
    }
    const text = textOf(deltas);
    yield this.#send("response.reasoning_summary_text.done", { ...where, text });
    yield this.#send("response.reasoning_summary_part.done", { ...where, part: toSummary(text) });
    return false;
  }

  *#call(at: Json, item: Json): Generator<Frame, boolean> {
    if (item["type"] === "tool_search_call") return false;
    const isCustom = item["type"] === "custom_tool_call";
    const [name, key] = isCustom
      ? (["response.custom_tool_call_input", "input"] as const)
      : (["response.function_call_arguments", "arguments"] as const);
    for (const delta of toPieces(asText(item[key]))) yield this.#send(`${name}.delta`, { ...at, delta });
    yield this.#send(`${name}.done`, { ...at, [key]: item[key] });
    return false;
  }

  /** Returns true if the fault ends the stream. */
  #breakOff(how: Break): Generator<Frame, boolean> {
    return breakOff(how, {
      garbage: "response.output_text.delta",
      failed: (failure) => {
        const { code, type, message } = asObject(asObject(toOpenAiFailure(failure).body)["error"]);
        const response = toResponse(this.#ask, this.#answer, "in_progress");
        const error = { code: code ?? type, message };
        return this.#send("response.failed", { response: { ...response, status: "failed", error } });
      },
    });
  }

  #send(type: string, event: Json): Frame {
    return toFrame({ type, sequence_number: this.#sent++, ...event }, type);
  }
}

/** An item as its first event shows it: without content. */
function toOpened(item: Json): Json {
  const empty = { content: [], summary: [], input: "", arguments: "" } as const;
  const emptied = Object.entries(empty).filter(
    ([key, value]) => Object.hasOwn(item, key) && typeof value === typeof item[key],
  );
  const opened = { ...item, ...Object.fromEntries(emptied) };
  return Object.hasOwn(item, "status") ? { ...opened, status: "in_progress" } : opened;
}

/** A part that is an item of the response's `output`. */
type ItemPart = Extract<Part, { do: "say" | "think" | "call" }>;

function isItem(part: Part): part is ItemPart {
  return part.do === "say" || part.do === "think" || part.do === "call";
}

function toContent(text: string): Json {
  return { type: "output_text", text, annotations: [] };
}

function toSummary(text: string): Json {
  return { type: "summary_text", text };
}

export function toResponse(ask: Ask, answer: Answer, status: "in_progress" | "completed"): Json {
  const isDone = status === "completed";
  const items = answer.parts.filter(isItem).map((part, index) => toItem(answer, part, index));
  return {
    id: `resp_${answer.id}`,
    object: "response",
    created_at: 1_700_000_000,
    model: ask.model,
    status,
    output: isDone ? items : [],
    usage: isDone ? toUsage(answer.usage) : null,
    error: null,
  };
}

function toItem(answer: Answer, part: ItemPart, index: number): Json & { id: string } {
  if (part.do === "call") return toCallItem(part.call);
  const id = `${answer.id}_${index}`;
  if (part.do === "think") {
    const summary = [toSummary(textOf(part.deltas))];
    return { id: `rs_${id}`, type: "reasoning", summary, encrypted_content: "c2NyaXB0ZWQ=" };
  }
  const content = [toContent(textOf(part.deltas))];
  return { id: `msg_${id}`, type: "message", role: "assistant", status: "completed", content };
}

function toCallItem({ id, name, namespace, input, search }: ToolCall): Json & { id: string } {
  const call = { call_id: `call_${id}`, status: "completed" };
  if (search === true)
    return { id: `tsc_${id}`, type: "tool_search_call", ...call, execution: "client", arguments: input };
  const named = { ...call, name, ...(namespace === undefined ? {} : { namespace }) };
  if (typeof input === "string") return { id: `ctc_${id}`, type: "custom_tool_call", ...named, input };
  return { id: `fc_${id}`, type: "function_call", ...named, arguments: JSON.stringify(input) };
}

function toUsage(usage: AnswerUsage): Json {
  const input = usage.input + usage.cacheRead + usage.cacheWrite;
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: usage.cacheRead },
    output_tokens: usage.output,
    output_tokens_details: { reasoning_tokens: usage.reasoning },
    total_tokens: input + usage.output,
  };
}
