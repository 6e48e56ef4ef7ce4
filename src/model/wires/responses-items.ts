import { type Answer, type AnswerUsage, type Part, textOf, type ToolCall } from "../answer.ts";
import type { Ask } from "../ask.ts";
import type { Json } from "../json.ts";

/** A part that is an item of the response's `output`. */
export type ItemPart = Extract<Part, { do: "say" | "think" | "call" }>;

export function isItem(part: Part): part is ItemPart {
  return part.do === "say" || part.do === "think" || part.do === "call";
}

export function toContent(text: string): Json {
  return { type: "output_text", text, annotations: [] };
}

export function toSummary(text: string): Json {
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

export function toItem(answer: Answer, part: ItemPart, index: number): Json & { id: string } {
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
