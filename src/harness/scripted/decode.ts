import type { SpoolLine } from "../../contract/index.ts";
import type { Decoded, HarnessFact } from "../port.ts";
import { parseRecord } from "../rpc.ts";
import { own, without } from "../transcript.ts";
import { parseObject, unparsedFact } from "../unparsed.ts";
import { decodeChecked } from "./decode-line.ts";
import { isCheckedType, LINE_SCHEMAS } from "./schemas.ts";
import type { ScriptedState } from "./state.ts";

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
  const decoded = decodeChecked(state, type, checked.data);
  return typeof decoded === "string" ? unparsed(state, line, decoded) : decoded;
}

/** The hot path: no schema, no copy of the state. */
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

/** An answer that was sent needs no translation any more. */
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
