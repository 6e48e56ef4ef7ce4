import { own } from "../transcript.ts";
import { type Fields, parentOf, toFields, toText } from "./fields.ts";
import type { Reader, Reading } from "./reading.ts";
import { endRequest, settleRequest } from "./requests.ts";
import type { Block, ClaudeState, Stream } from "./state.ts";
import { toUsage } from "./usage.ts";

/** The model's own stream, event by event. */
export const readStreamEvent: Reader = (state, line, reading) => {
  const event = toFields(line["event"]);
  const parent = parentOf(line);
  const stream = own(state.streams, parent ?? "");
  switch (event["type"]) {
    case "content_block_delta":
      return stream ? readDelta(state, { event, stream, parent }, reading) : state;
    case "content_block_start":
      return stream ? startBlock(state, { event, stream, parent }, reading) : state;
    case "content_block_stop":
      // The text itself ends with the `assistant` line; a block that stops without one may be said again.
      return state;
    case "message_start":
      return startMessage(state, { event, parent }, reading);
    case "message_delta":
      return stream ? keepStream(state, parent, stopped(stream, event)) : state;
    case "message_stop":
      return stream ? endMessage(state, { line, stream, parent }, reading) : state;
    case "ping":
    case "error":
      return state;
    default:
      return `unknown stream event ${JSON.stringify(event["type"]) ?? "none"}`.slice(0, 80);
  }
};

interface Place {
  readonly event: Fields;
  readonly stream: Stream;
  readonly parent: string | undefined;
}

/** The hot path. */
function readDelta(state: ClaudeState, { event, stream, parent }: Place, { scribe }: Reading): ClaudeState {
  const index = String(event["index"]);
  const block = own(stream.blocks, index);
  const delta = toFields(event["delta"]);
  if (!block) return state;
  switch (delta["type"]) {
    case "text_delta":
      scribe.delta(block.native, toText(delta["text"]));
      return state.hasSpoken || parent !== undefined ? state : { ...state, hasSpoken: true };
    case "thinking_delta":
      scribe.delta(block.native, toText(delta["thinking"]));
      return state;
    case "input_json_delta": {
      const piece = toText(delta["partial_json"]);
      scribe.argumentDelta(block.native, piece);
      const grown: Block = { ...block, written: (block.written ?? "") + piece };
      return keepStream(state, parent, { ...stream, blocks: { ...stream.blocks, [index]: grown } });
    }
    default:
      return state;
  }
}

function startBlock(state: ClaudeState, { event, stream, parent }: Place, { scribe }: Reading): ClaudeState {
  const index = String(event["index"]);
  const content = toFields(event["content_block"]);
  const block = toBlock(content, `${stream.message}:${index}`);
  if (block.kind === "text" || block.kind === "reasoning") {
    scribe.startText(block.native, { kind: block.kind, parent });
    scribe.delta(block.native, toText(content["text"] ?? content["thinking"]));
  }
  if (block.kind === "call") scribe.startCall(block.native, { name: block.name ?? "", parent });
  return keepStream(state, parent, { ...stream, blocks: { ...stream.blocks, [index]: block } });
}

function toBlock(content: Fields, native: string): Block {
  switch (content["type"]) {
    case "text":
      return { kind: "text", native };
    case "thinking":
      return { kind: "reasoning", native };
    case "tool_use":
    case "server_tool_use":
    case "mcp_tool_use":
      return { kind: "call", native: toText(content["id"]) || native, name: toText(content["name"]) };
    default:
      return { kind: "other", native };
  }
}

function startMessage(
  state: ClaudeState,
  { event, parent }: Pick<Place, "event" | "parent">,
  { scribe }: Reading,
): ClaudeState {
  const message = toFields(event["message"]);
  const id = toText(message["id"]);
  const next = parent === undefined ? settleRequest(state, scribe) : state;
  scribe.startModel(id, { model: toText(message["model"]) || undefined, parent });
  const stream: Stream = { message: id, usage: toUsage(toFields(message["usage"])), blocks: {} };
  const streams = { ...next.streams, [parent ?? ""]: stream };
  return { ...next, streams, ...(parent === undefined ? { isIdle: false } : {}) };
}

function stopped(stream: Stream, event: Fields): Stream {
  const stop = toText(toFields(event["delta"])["stop_reason"]);
  const usage = toUsage(toFields(event["usage"]), stream.usage);
  return { ...stream, usage, ...(stop === "" ? {} : { stop }) };
}

function endMessage(
  state: ClaudeState,
  { line, stream, parent }: Pick<Place, "stream" | "parent"> & { line: Fields },
  { scribe }: Reading,
): ClaudeState {
  // The CLI closes a stream that broke as if it had ended; only the model's reason is missing then.
  const isBroken = line["abandoned_blocks"] !== undefined || stream.stop === undefined;
  for (const block of Object.values(stream.blocks)) {
    if (isBroken && block.kind === "call") abandonCall(block, { scribe, parent });
    if (!isBroken) scribe.endText(block.native);
  }
  if (isBroken) scribe.tear();
  if (parent !== undefined || isBroken || stream.stop === "tool_use")
    return endRequest(state, stream, scribe);
  return { ...state, unpriced: { request: stream.message, usage: stream.usage } };
}

/** The call will be made again under another id, if at all. */
function abandonCall(
  block: Block,
  { scribe, parent }: Pick<Reading, "scribe"> & { parent: string | undefined },
): void {
  const { native, name = "", written = "" } = block;
  if (!scribe.hasCall(native) || !scribe.call(native, { name, input: written, parent })) return;
  scribe.result(native, { output: "The stream broke off before the call was complete.", failed: true });
}

function keepStream(state: ClaudeState, parent: string | undefined, stream: Stream): ClaudeState {
  return { ...state, streams: { ...state.streams, [parent ?? ""]: stream } };
}
