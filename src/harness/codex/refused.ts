import { isRecord, type Params } from "../rpc.ts";
import { own, without } from "../transcript.ts";
import { change, isMain, placeOf, type Reading } from "./reading.ts";
import { asThread } from "./texts.ts";

/**
 * How Codex begins its answer to a call that it does not carry out, such as one of a tool that it does not have, or to
 * code that fails.
 */
const REFUSALS = [
  /^unsupported (?:custom tool )?call: /,
  /^failed to parse function arguments: /,
  /^Script (?:failed|error)/,
];

/**
 * A call of the model as it came over the wire, or what the model got back. Codex tells of its calls by items of their own;
 * of one that it refuses it tells by these alone.
 */
export function hearRawItem(reading: Reading, { item, threadId }: Params): void {
  if (!isRecord(item) || typeof item["call_id"] !== "string") return;
  const thread = asThread(threadId);
  const id = item["call_id"];
  switch (item["type"]) {
    case "function_call":
    case "custom_tool_call": {
      const call = { name: String(item["name"]), input: inputOf(item), thread: thread ?? "" };
      return change(reading, { unanswered: { ...reading.state.unanswered, [id]: call } });
    }
    case "function_call_output":
    case "custom_tool_call_output":
      return answer(reading, { id, output: item["output"], thread });
  }
}

function answer(
  reading: Reading,
  { id, output, thread }: { id: string; output: unknown; thread: string | undefined },
): void {
  const { unanswered = {} } = reading.state;
  const call = own(unanswered, id);
  if (call === undefined) return;
  change(reading, { unanswered: without(unanswered, id) });
  const text = textOf(output);
  const failed = REFUSALS.some((words) => words.test(text));
  if (call.told) return void reading.scribe.result(id, { output: text, failed });
  if (!failed || reading.scribe.hasCall(id) || !isMain(reading, thread) || !reading.state.prompted) return;
  reading.scribe.call(id, { name: call.name, input: call.input, ...placeOf(reading, thread) });
  reading.scribe.result(id, { output: text, failed });
}

function textOf(output: unknown): string {
  if (typeof output === "string") return output;
  const parts = Array.isArray(output) ? output.filter(isRecord) : [];
  return parts.flatMap(({ text }) => (typeof text === "string" ? [text] : [])).join("");
}

function inputOf({ arguments: text, input }: Params): unknown {
  if (typeof text !== "string") return { input };
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return { arguments: text };
  }
}
