import type { ContentPart, EventData, SpoolLine } from "../../contract/index.ts";
import { exitPart, imagePart } from "../content-part.ts";
import { defined, parseObject, parseRecord } from "../fields.ts";
import type { Decoded, HarnessFact } from "../port.ts";
import { own, planItem, resultItem, statusItem, without } from "../transcript.ts";
import { unparsedFact } from "../unparsed.ts";
import { type Checked, type CheckedType, isCheckedType, LINE_SCHEMAS } from "./schemas.ts";
import {
  addWhole,
  afterTurn,
  besideStatus,
  endText,
  itemFact,
  nextId,
  parentOf,
  type Placed,
  type ScriptedState,
  startText,
  withParent,
} from "./state.ts";

type Result = Decoded<ScriptedState>;

/** One line of the scripted agent as facts. Never throws, whatever the bytes. */
export function decode(state: ScriptedState, line: SpoolLine): Result {
  if (line.dir === "in") return { state: forgetAnswered(state, line.text), facts: [] };
  if (line.dir !== "out") return { state, facts: [] };
  const value = parseObject(line);
  if (typeof value === "string") return unparsed(state, line, value);
  const { type } = value;
  if (type === "text.delta" || type === "thinking.delta" || type === "tool.output") {
    return decodeDelta(state, line, value);
  }
  if (!isCheckedType(type)) return unparsed(state, line, `unknown type ${shown(type)}`);
  const checked = LINE_SCHEMAS[type].safeParse(value);
  if (!checked.success) {
    const [issue] = checked.error.issues;
    const where = issue === undefined ? "" : ` at ${issue.path.join(".") || "the top"}: ${issue.message}`;
    return unparsed(state, line, `a malformed ${type}${where}`);
  }
  const decoder = DECODERS[type] as (state: ScriptedState, line: unknown) => Result | string;
  const decoded = decoder(state, checked.data);
  return typeof decoded === "string" ? unparsed(state, line, decoded) : decoded;
}

/** The most frequent line: no schema, no copy of the state. */
function decodeDelta(state: ScriptedState, line: SpoolLine, value: Record<string, unknown>): Result {
  const { type, id, text } = value;
  if (typeof id !== "string" || typeof text !== "string") {
    return unparsed(state, line, `a malformed ${String(type)}`);
  }
  const open = own(state.items, id);
  if (open?.streams === undefined) {
    return unparsed(state, line, `a ${String(type)} for ${shown(id)}, which has not started`);
  }
  const fact: HarnessFact = {
    type: "item.delta",
    data: { item_id: open.streams, native_item_id: id, delta: text },
  };
  if (open.parent !== undefined) fact.parent_id = open.parent;
  return { state, facts: [fact] };
}

function forgetAnswered(state: ScriptedState, text: string): ScriptedState {
  const value = parseRecord(text);
  if (value === undefined || !["permission", "answer", "tool_result"].includes(String(value["type"])))
    return state;
  const ask = Object.entries(state.asks).find(([, native]) => native === value["id"]);
  return ask === undefined ? state : { ...state, asks: without(state.asks, ask[0]) };
}

function unparsed(state: ScriptedState, line: SpoolLine, error: string): Result {
  return { state, facts: [unparsedFact(line, error)] };
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? "none";
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
}

/** The facts of a well-formed line, or the problem of one that does not fit the state. */
const DECODERS: { [T in CheckedType]: (state: ScriptedState, line: Checked<T>) => Result | string } = {
  session(state, line) {
    const { id, ...metadata } = line;
    const data = { metadata };
    return { state, facts: [{ type: "session.started", native_session_id: id, data }] };
  },
  "turn.started": (state) => ({ state: afterTurn(state), facts: [] }),
  "text.started": (state, line) => startText(state, line, "text"),
  "thinking.started": (state, line) => startText(state, line, "reasoning"),
  "text.ended": (state, line) => endText(state, line, "text"),
  "thinking.ended": (state, line) => endText(state, line, "reasoning"),
  image: (state, line) =>
    addWhole(state, line, {
      kind: "message",
      role: "assistant",
      content: [imagePart(line.data, line.mime)],
    }),
  "tool.called"(state, line) {
    const { id, name, input, file } = line;
    const part: ContentPart = {
      type: "tool_call",
      name,
      arguments: JSON.stringify(input) ?? "null",
      call_id: id,
    };
    const parent = parentOf(state, line);
    const content = file === undefined ? [part] : [part, toFileRef(file)];
    const whole = addWhole(state, line, { kind: "tool_call", role: "assistant", content });
    const open = { item: `${state.prefix}${whole.state.count}`, ...(parent === undefined ? {} : { parent }) };
    return { ...whole, state: { ...whole.state, items: { ...state.items, [id]: open } } };
  },
  "tool.started"(state, { id }) {
    const call = own(state.items, id);
    if (call === undefined || call.streams !== undefined)
      return `${id} cannot start: it is no open tool call`;
    const [streams, next] = nextId(state);
    const item = resultItem(id, { call: call.item, result: streams }, { status: "in_progress", content: [] });
    return {
      state: { ...next, items: { ...state.items, [id]: { ...call, streams } } },
      facts: [itemFact("item.started", item, call.parent)],
    };
  },
  "tool.ended"(state, line) {
    const call = own(state.items, line.id);
    if (call === undefined) return `${line.id} cannot end: it is no open tool call`;
    const [result, next] = call.streams === undefined ? nextId(state) : [call.streams, state];
    const ids = { call: call.item, result };
    const content: ContentPart[] = [{ type: "tool_result", call_id: line.id, output: line.output }];
    if (line.file !== undefined) content.push(toFileRef(line.file));
    content.push(...exitPart(line.exit_code));
    const item = resultItem(line.id, ids, { status: line.failed ? "failed" : "completed", content });
    const facts = [itemFact("item.completed", item, call.parent)];
    if (call.streams === undefined) {
      facts.unshift(itemFact("item.started", { ...item, status: "in_progress", content: [] }, call.parent));
    }
    return { state: { ...next, items: without(next.items, line.id) }, facts };
  },
  "permission.asked"(state, line) {
    const [id, next] = nextId(state, "perm");
    const metadata = { call_id: line.call, name: line.name, input: line.input };
    const data = { permission_id: id, action: line.name, status: "requested" as const, metadata };
    return ask(next, line, { id, fact: { type: "permission.requested", data } });
  },
  "question.asked"(state, line) {
    const [id, next] = nextId(state, "ques");
    const { prompt, options } = line;
    const data = { question_id: id, prompt, options, status: "requested" as const };
    return ask(next, line, { id, fact: { type: "question.requested", data } });
  },
  "tool.asked"(state, line) {
    const [id, next] = nextId(state, "treq");
    const { name, input, builtin, call: call_id } = line;
    const data = { request_id: id, name, input, call_id, ...(builtin === undefined ? {} : { builtin }) };
    return ask(next, line, { id, fact: { type: "tool.requested", data } });
  },
  plan(state, line) {
    const fact: HarnessFact = { type: "plan.updated", data: { entries: line.entries } };
    return besideStatus(state, line, { fact, status: planItem(line.entries) });
  },
  compacted(state, line) {
    const { trigger, summary } = line;
    const fact: HarnessFact = { type: "context.compacted", data: defined({ trigger, summary }) };
    return besideStatus(state, line, { fact, status: statusItem("context compacted", summary) });
  },
  "model.started"(state, line) {
    const [id, next] = nextId(state, "mreq");
    const parent = parentOf(state, line);
    const request = parent === undefined ? { id } : { id, parent };
    const data = { request_id: id, ...(line.model === undefined ? {} : { model: line.model }) };
    return {
      state: { ...next, requests: { ...state.requests, [line.id]: request } },
      facts: [withParent(parent, { type: "model.started", data })],
    };
  },
  "model.ended"(state, line) {
    const request = own(state.requests, line.id);
    if (request === undefined) return `model request ${line.id} cannot end: it has not started`;
    const data: EventData<"model.ended"> = {
      request_id: request.id,
      usage: defined(line.usage),
      usage_source: line.estimated ? "estimated" : "reported",
    };
    const requests = without(state.requests, line.id);
    return {
      state: { ...state, requests },
      facts: [withParent(request.parent, { type: "model.ended", data })],
    };
  },
  "model.failed"(state, line) {
    const { kind: code, message, retryable } = line;
    const request = own(state.requests, line.id);
    if (request === undefined) return `model request ${line.id} cannot fail: it has not started`;
    const data = { request_id: request.id, error: { code, message, retryable } };
    return {
      state: { ...state, requests: without(state.requests, line.id) },
      facts: [
        withParent(request.parent, { type: "model.ended", data }),
        withParent(request.parent, { type: "model.failed", code, message, retryable }),
      ],
    };
  },
  error(state, line) {
    const { code, message, details } = line;
    const data = { message, code, ...(details === undefined ? {} : { details }) };
    return { state, facts: [withParent(parentOf(state, line), { type: "error", data })] };
  },
  "turn.ended"(state, line) {
    const data: EventData<"turn.ended"> = { turn_id: "", ...TURN_ENDS[line.stop_reason] };
    if (line.reason !== undefined) data.details = { reason: line.reason };
    if (line.error !== undefined) data.error = { ...line.error };
    return { state: afterTurn(state), facts: [{ type: "turn.ended", data }] };
  },
};

const TURN_ENDS = {
  end_turn: { status: "completed", stop_reason: "end_turn" },
  refusal: { status: "completed", stop_reason: "refusal" },
  interrupted: { status: "interrupted", stop_reason: "interrupted" },
  // A faulty script is no failure of a model: the session goes on.
  failed: { status: "failed", stop_reason: "end_turn" },
} as const;

function ask(state: ScriptedState, line: Placed, asked: { id: string; fact: HarnessFact }): Result {
  return {
    state: { ...state, asks: { ...state.asks, [asked.id]: line.id } },
    facts: [withParent(parentOf(state, line), asked.fact)],
  };
}

function toFileRef(file: NonNullable<Checked<"tool.ended">["file"]>): ContentPart {
  const { path, action, diff } = file;
  return { type: "file_ref", path, action, ...(diff === undefined ? {} : { diff }) };
}
