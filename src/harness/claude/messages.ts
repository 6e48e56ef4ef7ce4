import { COLLECTED_LENGTH, headOf } from "../../text/long-text.ts";
import { type Fields, toFields, toList, toText } from "../fields.ts";
import { own } from "../transcript.ts";
import { type Block, parentOf, type Reader, type Reading, type Stream } from "./state.ts";
import { keepInput } from "./tools.ts";
import { endRequest, settleRequest, toUsage } from "./turns.ts";

/** The model's own stream, event by event. */
export const readStreamEvent: Reader = (reading, line) => {
  const event = toFields(line["event"]);
  const parent = parentOf(line);
  const stream = own(reading.state.streams, parent ?? "");
  switch (event["type"]) {
    case "content_block_delta":
      if (stream) readDelta(reading, { event, stream, parent });
      return undefined;
    case "content_block_start":
      if (stream) startBlock(reading, { event, stream, parent });
      return undefined;
    case "message_start":
      return void startMessage(reading, event, parent);
    case "message_delta":
      if (stream) keepStream(reading, parent, stopped(stream, event));
      return undefined;
    case "message_stop":
      if (stream) endMessage(reading, { line, stream, parent });
      return undefined;
    // A text ends with its `assistant` line. A block that stops without that line may be streamed again.
    case "content_block_stop":
    case "ping":
    case "error":
      return undefined;
    default:
      return `unknown stream event ${JSON.stringify(event["type"]) ?? "none"}`.slice(0, 80);
  }
};

interface BlockEvent {
  readonly event: Fields;
  readonly stream: Stream;
  readonly parent: string | undefined;
}

/** Reads the most frequent line, so it copies as little as possible. */
function readDelta(reading: Reading, { event, stream, parent }: BlockEvent): void {
  const { scribe, state } = reading;
  const index = String(event["index"]);
  const block = own(stream.blocks, index);
  const delta = toFields(event["delta"]);
  if (!block) return;
  switch (delta["type"]) {
    case "text_delta":
      scribe.delta(block.native, toText(delta["text"]));
      if (!state.hasSpoken && parent === undefined) reading.change({ hasSpoken: true });
      return;
    case "thinking_delta":
      scribe.delta(block.native, toText(delta["thinking"]));
      return;
    case "input_json_delta": {
      const piece = toText(delta["partial_json"]);
      scribe.argumentDelta(block.native, piece);
      const written = headOf((block.written ?? "") + piece, COLLECTED_LENGTH);
      const grown: Block = { ...block, written };
      keepStream(reading, parent, { ...stream, blocks: { ...stream.blocks, [index]: grown } });
    }
  }
}

function startBlock(reading: Reading, { event, stream, parent }: BlockEvent): void {
  const { scribe } = reading;
  const index = String(event["index"]);
  const content = toFields(event["content_block"]);
  const block = toBlock(content, `${stream.message}:${index}`);
  if (block.kind === "text" || block.kind === "reasoning") {
    scribe.startText(block.native, { kind: block.kind, parent });
    scribe.delta(block.native, toText(content["text"] ?? content["thinking"]));
  }
  if (block.kind === "call") scribe.startCall(block.native, { name: block.name ?? "", parent });
  keepStream(reading, parent, { ...stream, blocks: { ...stream.blocks, [index]: block } });
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

function startMessage(reading: Reading, event: Fields, parent: string | undefined): void {
  const message = toFields(event["message"]);
  const id = toText(message["id"]);
  if (parent === undefined) settleRequest(reading);
  reading.scribe.startModel(id, { model: toText(message["model"]) || undefined, parent });
  keepStream(reading, parent, { message: id, usage: toUsage(toFields(message["usage"])), blocks: {} });
  if (parent === undefined) reading.change({ isIdle: false });
}

function stopped(stream: Stream, event: Fields): Stream {
  const stop = toText(toFields(event["delta"])["stop_reason"]);
  const usage = toUsage(toFields(event["usage"]), stream.usage);
  return { ...stream, usage, ...(stop === "" ? {} : { stop }) };
}

function endMessage(
  reading: Reading,
  { line, stream, parent }: Omit<BlockEvent, "event"> & { line: Fields },
): void {
  // The CLI closes a broken stream like a complete one; only the model's stop reason is missing.
  const isBroken = line["abandoned_blocks"] !== undefined || stream.stop === undefined;
  for (const block of Object.values(stream.blocks)) {
    if (isBroken && block.kind === "call") abandonCall(reading, block, parent);
    if (!isBroken) reading.scribe.endText(block.native);
  }
  if (isBroken) reading.scribe.tear();
  if (parent !== undefined || isBroken || stream.stop === "tool_use") return endRequest(reading, stream);
  reading.change({ unpriced: { request: stream.message, usage: stream.usage } });
}

/** The model makes the call again under another id, or not at all. */
function abandonCall({ scribe }: Reading, block: Block, parent: string | undefined): void {
  const { native, name = "", written = "" } = block;
  if (!scribe.hasCall(native) || !scribe.call(native, { name, input: written, parent })) return;
  scribe.result(native, { output: "The stream broke off before the call was complete.", failed: true });
}

function keepStream(reading: Reading, parent: string | undefined, stream: Stream): void {
  reading.change({ streams: { ...reading.state.streams, [parent ?? ""]: stream } });
}

/** Reads a whole message or a part of it. Most of its text was streamed before. */
export const readAssistant: Reader = (reading, line) => {
  const failure = failureOf(line);
  const parent = parentOf(line);
  // The CLI writes a failure as a message of the agent. The result line reports it as a failure.
  if (failure !== undefined) {
    if (parent === undefined) reading.change({ failure });
    return undefined;
  }
  const message = toFields(line["message"]);
  const stream = own(reading.state.streams, parent ?? "");
  const streamed = stream?.message === toText(message["id"]) ? stream : undefined;
  const id = toText(line["uuid"]) || toText(message["id"]);
  const isCut = line["aborted"] === true;
  for (const [index, block] of toList(message["content"]).entries())
    readBlock(reading, { block, streamed, parent, isCut, native: `${id}:${index}` });
  return undefined;
};

interface WholeBlock {
  readonly block: Fields;
  /** The stream that had the text before. */
  readonly streamed: Stream | undefined;
  readonly parent: string | undefined;
  readonly isCut: boolean;
  /** The id of the text, if no stream has named it. */
  readonly native: string;
}

function readBlock(reading: Reading, whole: WholeBlock): void {
  const { block, parent } = whole;
  switch (block["type"]) {
    case "text":
      readText(reading, whole, "text", toText(block["text"]));
      if (parent === undefined) reading.change({ hasSpoken: true });
      return;
    case "thinking":
      return readText(reading, whole, "reasoning", toText(block["thinking"]));
    case "tool_use":
    case "server_tool_use":
    case "mcp_tool_use": {
      const [id, name, input] = [toText(block["id"]), toText(block["name"]), block["input"] ?? {}];
      if (reading.scribe.call(id, { name, input, parent })) keepInput(reading, { id, name, input });
    }
  }
}

function readText(
  { scribe }: Reading,
  { streamed, parent, isCut, native }: WholeBlock,
  kind: "text" | "reasoning",
  text: string,
): void {
  if (!streamed) {
    if (text !== "") scribe.sayWhole(native, text, { kind, parent });
    return;
  }
  // The lines of blocks come in order, so this line belongs to the first open block of its kind.
  for (const block of Object.values(streamed.blocks)) {
    if (block.kind === kind && scribe.endText(block.native, text, { failed: isCut })) return;
  }
}

function failureOf(line: Fields): string | undefined {
  if (typeof line["error"] === "string") return line["error"];
  return line["is_api_error_message"] === true || line["isApiErrorMessage"] === true ? "unknown" : undefined;
}
