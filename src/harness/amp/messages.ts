import type { SpoolLine } from "../../contract/index.ts";
import { isRecord } from "../rpc.ts";
import type { Scribe } from "../scribe.ts";
import { own, without } from "../transcript.ts";
import { endByStop } from "./ends.ts";
import { toOutcome } from "./outcome.ts";
import type { AmpAsk, AmpState } from "./state.ts";
import { planOf } from "./tools.ts";
import { toUsage } from "./usage.ts";

type Block = Readonly<Record<string, unknown>>;

interface Message {
  readonly value: Block;
  readonly scribe: Scribe<AmpAsk>;
}

interface Spot {
  readonly scribe: Scribe<AmpAsk>;
  readonly native: string;
  readonly parent: string | undefined;
}

/** What the model said, whole: texts, thoughts and tool calls, with the usage of its request. */
export function decodeAssistant(state: AmpState, line: SpoolLine, { value, scribe }: Message): AmpState {
  const message = value["message"];
  if (!isRecord(message) || !Array.isArray(message["content"])) {
    scribe.unparsed(line, "a malformed assistant");
    return state;
  }
  const parent = parentOf(state, value);
  // Amp names no message, or not always; what stands in for the name is the same live and in a recording.
  const id = typeof message["id"] === "string" ? message["id"] : `message ${scribe.transcript.count}`;
  let next: AmpState = { ...state, heard: true };
  for (const block of message["content"].filter(isRecord)) {
    const known = sayBlock(next, block, { scribe, native: `${id}/${scribe.transcript.count}`, parent });
    if (known) next = known;
    else scribe.unparsed(line, `unknown content ${String(block["type"]).slice(0, 60)}`);
  }
  next = countUsage(next, message, { scribe, native: id, parent });
  return parent === undefined ? endByStop(next, message["stop_reason"], scribe) : next;
}

/** What was said to the model: the prompt again, and what its tools came to. */
export function decodeUser(state: AmpState, line: SpoolLine, { value, scribe }: Message): AmpState {
  const message = value["message"];
  const content = isRecord(message) ? message["content"] : undefined;
  if (typeof content !== "string" && !Array.isArray(content)) {
    scribe.unparsed(line, "a malformed user");
    return state;
  }
  const blocks = typeof content === "string" ? [] : content.filter(isRecord);
  const results = blocks.filter((block) => block["type"] === "tool_result");
  const isPrompt = results.length === 0 && (value["parent_tool_use_id"] ?? null) === null;
  // The first echo of a turn is its prompt's; every other is of a message that was sent meanwhile.
  const steering = isPrompt && state.heard ? Math.max(0, state.steering - 1) : state.steering;
  return results.reduce((next, block) => endCall(next, block, { line, scribe }), {
    ...state,
    heard: true,
    steering,
  } as AmpState);
}

function sayBlock(state: AmpState, block: Block, { scribe, native, parent }: Spot): AmpState | undefined {
  const { type, text, thinking } = block;
  if (type === "text" && typeof text === "string") {
    if (text !== "") scribe.sayWhole(native, text, { parent });
    return state;
  }
  if (type === "thinking" && typeof thinking === "string") {
    if (thinking !== "") scribe.sayWhole(native, thinking, { kind: "reasoning", parent });
    return state;
  }
  if (type === "redacted_thinking") return state;
  return type === "tool_use" ? startCall(state, block, { scribe, native, parent }) : undefined;
}

function startCall(state: AmpState, block: Block, { scribe, parent }: Spot): AmpState | undefined {
  const { id, name, input } = block;
  if (typeof id !== "string" || typeof name !== "string") return undefined;
  const text = JSON.stringify(input ?? {});
  const madeUp = Object.entries(state.calls).find(
    ([, call]) => call.madeUp && call.name === name && call.input === text,
  );
  if (madeUp) {
    const [known, { madeUp: _, ...call }] = madeUp;
    return { ...state, calls: { ...state.calls, [known]: call }, aliases: { ...state.aliases, [id]: known } };
  }
  if (!scribe.call(id, { name, input: input ?? {}, parent })) return state;
  const plan = planOf(name, input);
  if (plan) scribe.plan(plan, { parent });
  return { ...state, calls: { ...state.calls, [id]: { name, input: text } } };
}

function endCall(
  state: AmpState,
  block: Block,
  { line, scribe }: { line: SpoolLine; scribe: Scribe<AmpAsk> },
): AmpState {
  const { tool_use_id: told } = block;
  const id = typeof told === "string" ? (own(state.aliases, told) ?? told) : "";
  const isKnown = scribe.result(id, toOutcome(own(state.calls, id), block));
  if (!isKnown)
    scribe.unparsed(line, `a result of ${JSON.stringify(told) ?? "nothing"}, which was not called`);
  return isKnown ? { ...state, calls: without(state.calls, id) } : state;
}

/** Once per message, in however many lines it comes. */
function countUsage(state: AmpState, message: Block, { scribe, native, parent }: Spot): AmpState {
  const usage = state.message === native ? undefined : toUsage(message["usage"]);
  if (!usage) return state;
  const { model } = message;
  scribe.startModel(native, { parent, ...(typeof model === "string" ? { model } : {}) });
  scribe.endModel(native, { usage });
  return { ...state, message: native, counted: true };
}

function parentOf(state: AmpState, { parent_tool_use_id: parent }: Block): string | undefined {
  return typeof parent === "string" && parent !== "" ? (own(state.aliases, parent) ?? parent) : undefined;
}
