import { parseOthersJson } from "../../contract/index.ts";
import { textOf } from "../acp/content.ts";
import { readUpdate } from "../acp/decode.ts";
import type { AcpReading, PrintedForm } from "../acp/dialect.ts";
import { toTextFailure } from "../acp/failure.ts";
import { MAIN, readChunk, tearSpeech } from "../acp/messages.ts";
import { readTool } from "../acp/tools.ts";
import { endPrompt, failTurn } from "../acp/turns.ts";
import { isRecord, toFields, toNames, toRecords } from "../fields.ts";
import type { Params } from "../rpc.ts";
import { own } from "../transcript.ts";
import { reportModel } from "./notifications.ts";

const STREAM_TYPES: ReadonlySet<string> = toNames(`
  text thought tool_call tool_call_update plan usage available_commands error end
`);

/** `grok -p … --output-format streaming-json`: ACP's updates, flattened. */
export const streamForm: PrintedForm = {
  matches: ({ type, event }) => typeof type === "string" && STREAM_TYPES.has(type) && event === undefined,
  read: readStreamLine,
};

const UPDATE = { origin: MAIN, isUpdate: true };

/** Deltas of this length are not equal by chance. */
const MIN_REPEAT = 8;

function readStreamLine(reading: AcpReading, line: Params): string | undefined {
  switch (line["type"]) {
    case "text":
      return readText(reading, line["data"], "text");
    case "thought":
      return readText(reading, line["data"], "reasoning");
    case "tool_call":
    case "tool_call_update": {
      const { status, ...fields } = line;
      const known = typeof status === "string" && status !== "pending" ? { ...fields, status } : fields;
      const context = { origin: MAIN, isUpdate: line["type"] === "tool_call_update" };
      return readTool(reading, known, context) ? undefined : "a malformed tool call";
    }
    case "plan":
      return readUpdate(reading, { update: { sessionUpdate: "plan", entries: line["entries"] } });
    case "usage":
      return void reportModel(reading, line["usage"], MAIN);
    case "error":
      return void failTurn(reading, toTextFailure(String(line["message"])));
    case "end":
      return void readStreamEnd(reading, line);
    default:
      return undefined;
  }
}

/** After a cut Grok prints the whole text again, unmarked. A text with the same first delta is a repetition. */
function readText(reading: AcpReading, data: unknown, kind: "text" | "reasoning"): string | undefined {
  if (typeof data !== "string") return `a ${kind} without its data`;
  const first = `first:${kind}`;
  const speech = own(reading.state.speaking, MAIN);
  if (speech?.kind === kind && data.length >= MIN_REPEAT && data === reading.state.aside[first])
    tearSpeech(reading, MAIN);
  if (speech?.kind !== kind) reading.change({ aside: { ...reading.state.aside, [first]: data } });
  readChunk(reading, { content: { type: "text", text: data } }, { kind, origin: MAIN });
  return undefined;
}

function readStreamEnd(reading: AcpReading, { sessionId, stopReason }: Params): void {
  if (typeof sessionId === "string") {
    reading.scribe.session(sessionId);
  }
  endPrompt(reading, "prompt", { stopReason });
}

const MESSAGES_TYPES = new Set(["system", "stream_event", "assistant", "user", "result"]);

/** `grok -p … --output-format streaming-messages-json`: the shape of Claude Code's lines. */
export const messagesForm: PrintedForm = {
  matches: ({ type }) => typeof type === "string" && MESSAGES_TYPES.has(type),
  read: readMessagesLine,
};

function readMessagesLine(reading: AcpReading, line: Params): string | undefined {
  const message = toFields(line["message"]);
  switch (line["type"]) {
    case "system":
      return readInit(reading, line);
    case "stream_event":
      return isRecord(line["event"])
        ? readStreamEvent(reading, line["event"])
        : "a stream_event without its event";
    case "assistant":
      return readAssistant(reading, message);
    case "user":
      for (const block of blocksOf(message)) readToolResult(reading, block);
      return undefined;
    default:
      return void readResult(reading, line);
  }
}

function readInit(reading: AcpReading, { session_id: id }: Params): undefined {
  if (typeof id === "string") reading.scribe.session(id);
}

/** Reads the whole message. Only text that was not streamed is new. */
function readAssistant(reading: AcpReading, message: Params): undefined {
  const isNew = !wasStreamed(reading, message["id"]);
  for (const block of blocksOf(message)) {
    const { type, id, name, input, text, thinking } = block;
    if (type === "tool_use") {
      readTool(reading, { toolCallId: id, toolName: name, rawInput: input }, UPDATE);
    }
    if (!isNew) continue;
    const native = `${String(message["id"])}:${reading.scribe.transcript.count}`;
    if (typeof text === "string") reading.scribe.sayWhole(native, text);
    if (typeof thinking === "string") reading.scribe.sayWhole(native, thinking, { kind: "reasoning" });
  }
  if (isNew) reportModel(reading, message["usage"], MAIN);
}

function readToolResult(
  reading: AcpReading,
  { type, tool_use_id: id, content, is_error: failed }: Params,
): void {
  if (type !== "tool_result") return;
  const status = failed === true ? "failed" : "completed";
  readTool(reading, { toolCallId: id, status, ...resultOf(content) }, UPDATE);
}

/** ACP's content as JSON in a string, or just a string. */
function resultOf(content: unknown): Params {
  if (typeof content !== "string") return { content };
  try {
    const value: unknown = parseOthersJson(content);
    return Array.isArray(value) && textOf(value) !== "" ? { content: value } : { rawOutput: content };
  } catch {
    return { rawOutput: content };
  }
}

function readResult(
  reading: AcpReading,
  { is_error: failed, stop_reason: stopReason, errors }: Params,
): void {
  const [error] = Array.isArray(errors) ? errors.map(String) : [];
  if (failed !== true || stopReason === "cancelled") return endPrompt(reading, "prompt", { stopReason });
  failTurn(reading, toTextFailure(error ?? "the agent failed"));
}

function blocksOf({ content }: Params): Params[] {
  return toRecords(content);
}

/** One event of a streamed message, in the shape of Anthropic's API. */
function readStreamEvent(reading: AcpReading, event: Params): string | undefined {
  const { type, index, message, content_block: block, delta, usage } = event;
  switch (type) {
    case "message_start":
      reading.change({
        aside: { ...reading.state.aside, message: isRecord(message) ? String(message["id"]) : "" },
      });
      return undefined;
    case "content_block_start":
      return isRecord(block) ? startBlock(reading, index, block) : "a content block without its content";
    case "content_block_delta":
      return isRecord(delta) ? readDelta(reading, index, delta) : "a delta without its content";
    case "content_block_stop":
      return void reading.scribe.endText(nativeOf(reading, index));
    case "message_delta":
      return void reportModel(reading, usage, MAIN);
    case "message_stop":
    case "ping":
      return undefined;
    default:
      return `an unknown stream event: ${String(type).slice(0, 60)}`;
  }
}

function wasStreamed(reading: AcpReading, message: unknown): boolean {
  return reading.state.aside["message"] === message;
}

function startBlock(reading: AcpReading, index: unknown, block: Params): undefined {
  const { type, id, name } = block;
  if (type === "tool_use") {
    reading.scribe.startCall(String(id), { name: String(name) });
    reading.change({ aside: { ...reading.state.aside, [`block:${String(index)}`]: String(id) } });
    return;
  }
  reading.scribe.startText(nativeOf(reading, index), { kind: type === "thinking" ? "reasoning" : "text" });
}

function readDelta(reading: AcpReading, index: unknown, delta: Params): string | undefined {
  const { type, text, thinking, partial_json: json } = delta;
  if (type === "signature_delta") return undefined;
  if (type === "input_json_delta") {
    const call = reading.state.aside[`block:${String(index)}`];
    if (call !== undefined && typeof json === "string") reading.scribe.argumentDelta(call, json);
    return undefined;
  }
  const words = text ?? thinking;
  if (typeof words !== "string") return `an unknown delta: ${String(type).slice(0, 60)}`;
  return reading.scribe.delta(nativeOf(reading, index), words)
    ? undefined
    : "a delta of a block that has not started";
}

function nativeOf(reading: AcpReading, index: unknown): string {
  return `${reading.state.aside["message"] ?? ""}:${String(index)}`;
}
