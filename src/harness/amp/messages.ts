import type { SpoolLine } from "../../contract/index.ts";
import { type Fields, isRecord, toFields } from "../fields.ts";
import { own, without } from "../transcript.ts";
import type { Reading } from "./state.ts";
import { kindOf, planOf, toOutcome } from "./tools.ts";
import { endByStop, toUsage } from "./turns.ts";

/** A whole message of the model: texts, thoughts and tool calls, with the usage of its request. */
export function readAssistant(reading: Reading, line: SpoolLine, value: Fields): string | undefined {
  const { scribe } = reading;
  const { message } = value;
  if (!isRecord(message) || !Array.isArray(message["content"])) return "a malformed assistant";
  const parent = parentOf(reading, value);
  // A message without an id gets a name that is the same live and in a recording.
  const id = typeof message["id"] === "string" ? message["id"] : `message ${scribe.transcript.count}`;
  reading.change({ heard: true });
  for (const block of message["content"].filter(isRecord)) {
    if (!readBlock(reading, block, { native: `${id}/${scribe.transcript.count}`, parent }))
      scribe.unparsed(line, `unknown content ${String(block["type"]).slice(0, 60)}`);
  }
  countUsage(reading, message, { native: id, parent });
  if (parent === undefined) endByStop(reading, message["stop_reason"]);
  return undefined;
}

/** The model's input: an echo of the prompt, and the results of tools. */
export function readUser(reading: Reading, line: SpoolLine, value: Fields): string | undefined {
  const { message } = value;
  const { heard, steering } = reading.state;
  const content = isRecord(message) ? message["content"] : undefined;
  if (typeof content !== "string" && !Array.isArray(content)) return "a malformed user";
  const blocks = typeof content === "string" ? [] : content.filter(isRecord);
  const results = blocks.filter((block) => block["type"] === "tool_result");
  const isPrompt = results.length === 0 && (value["parent_tool_use_id"] ?? null) === null;
  // The first echo of a turn is its prompt's; every later one belongs to a message that was sent meanwhile.
  reading.change({ heard: true, steering: isPrompt && heard ? Math.max(0, steering - 1) : steering });
  for (const block of results) endCall(reading, block, line);
  return undefined;
}

interface Named {
  readonly native: string;
  readonly parent: string | undefined;
}

/** False for a block of unknown content. */
function readBlock(reading: Reading, block: Fields, { native, parent }: Named): boolean {
  const { type, text, thinking } = block;
  if (type === "text" && typeof text === "string") {
    if (text !== "") reading.scribe.sayWhole(native, text, { parent });
    return true;
  }
  if (type === "thinking" && typeof thinking === "string") {
    if (thinking !== "") reading.scribe.sayWhole(native, thinking, { kind: "reasoning", parent });
    return true;
  }
  if (type === "redacted_thinking") return true;
  return type === "tool_use" && startCall(reading, block, parent);
}

function startCall(reading: Reading, block: Fields, parent: string | undefined): boolean {
  const { id, name, input } = block;
  const { calls, aliases } = reading.state;
  if (typeof id !== "string" || typeof name !== "string") return false;
  const text = JSON.stringify(input ?? {});
  // The gate may have asked about this call before Amp reported it. Then the log has the call under a made-up id.
  const madeUp = Object.entries(calls).find(
    ([, call]) => call.madeUp && call.name === name && call.input === text,
  );
  if (madeUp) {
    const [known, { madeUp: _, ...call }] = madeUp;
    reading.change({ calls: { ...calls, [known]: call }, aliases: { ...aliases, [id]: known } });
    return true;
  }
  if (!reading.scribe.call(id, { name, input: input ?? {}, parent })) return true;
  const plan = planOf(name, input);
  if (plan) reading.scribe.plan(plan, { parent });
  reading.change({ calls: { ...calls, [id]: { name, input: text } } });
  return true;
}

function endCall(reading: Reading, block: Fields, line: SpoolLine): void {
  const { calls, aliases } = reading.state;
  const { tool_use_id: named } = block;
  const id = typeof named === "string" ? (own(aliases, named) ?? named) : "";
  if (reading.scribe.result(id, toOutcome(own(calls, id), block)))
    return reading.change({ calls: without(calls, id) });
  const shown = JSON.stringify(named) ?? "nothing";
  reading.scribe.unparsed(line, `a result of ${shown}, which was not called`);
}

/** Counts each message once, though it may come in several lines. */
function countUsage(reading: Reading, message: Fields, { native, parent }: Named): void {
  const usage = reading.state.message === native ? undefined : toUsage(message["usage"]);
  if (!usage) return;
  const { model } = message;
  reading.scribe.startModel(native, { parent, ...(typeof model === "string" ? { model } : {}) });
  reading.scribe.endModel(native, { usage });
  reading.change({ message: native, counted: true });
}

function parentOf({ state }: Reading, { parent_tool_use_id: parent }: Fields): string | undefined {
  return typeof parent === "string" && parent !== "" ? (own(state.aliases, parent) ?? parent) : undefined;
}

/** The gate's question whether a tool may run. It names the tool and its arguments, not the call's id. */
export function readAsk(reading: Reading, value: Fields): string | undefined {
  const { scribe } = reading;
  const { calls } = reading.state;
  const { id, tool } = value;
  if (typeof id !== "string" || typeof tool !== "string") return "a malformed permission.asked";
  const input = toFields(value["input"]);
  const text = JSON.stringify(input);
  const found = Object.entries(calls).find(
    ([, call]) => !call.asked && call.name === tool && call.input === text,
  );
  const callId = found?.[0] ?? id;
  if (!found) scribe.call(callId, { name: tool, input });
  const metadata = { call_id: callId, name: tool, input, kind: kindOf(tool) };
  scribe.askPermission({ native: id, tool }, { action: tool, metadata });
  const call = { name: tool, input: text, asked: true, ...(found ? {} : { madeUp: true }) };
  reading.change({ calls: { ...calls, [callId]: call } });
  return undefined;
}

/** Amp has cancelled a call before its answer. */
export function withdrawAsk({ scribe }: Reading, { id: native }: Fields): void {
  const [id, ask] = scribe.takeAsk((ask) => ask.native === native) ?? [];
  if (id === undefined || !ask) return;
  const data = { permission_id: id, action: ask.tool, status: "denied" as const, metadata: { by: "agent" } };
  scribe.add({ type: "permission.resolved", data });
}
