import type { Usage } from "../../contract/index.ts";
import { asText, defined, isRecord, toFields } from "../fields.ts";
import { type Origin, own, type TextKind } from "../transcript.ts";
import { requestAbort } from "./encode.ts";
import { reportSession } from "./sessions.ts";
import type { Message, OpencodeReading, Part, Properties } from "./state.ts";
import { readTool, toImage } from "./tools.ts";
import { endIfIdle, recover, toEventError, toNativeError } from "./turns.ts";

/** The start, a change or the end of a message. */
export function readMessage(reading: OpencodeReading, { info }: Properties): string | undefined {
  if (!isRecord(info) || typeof info["id"] !== "string") return "a message without an id";
  const origin = reading.originOf(info["sessionID"]);
  if (!origin || reading.state.past.includes(info["id"])) return undefined;
  const id = info["id"];
  reportSession(reading);
  if (info["role"] === "user") return readUserMessage(reading, id, info);
  if (!own(reading.work.messages, id) && !begin(reading, id, info)) return undefined;
  if (isComplete(info)) complete(reading, id, info);
  return undefined;
}

/** A prompt of ours has become a message. */
function readUserMessage(reading: OpencodeReading, id: string, info: Properties): undefined {
  if (!reading.isMain(info["sessionID"])) return;
  const { model } = info;
  if (isRecord(model) && typeof model["providerID"] === "string" && typeof model["modelID"] === "string") {
    reading.change({ model: { providerID: model["providerID"], modelID: model["modelID"] } });
  }
  const { turn } = reading.state;
  reading.change({ past: [...reading.state.past, id] });
  if (turn) reading.changeTurn({ awaited: Math.max(0, turn.awaited - 1), hasBegun: true });
}

function begin(reading: OpencodeReading, id: string, info: Properties): boolean {
  const { turn } = reading.state;
  // A message that was complete before the turn is already in the log.
  if (!turn && isComplete(info)) return false;
  const session = String(info["sessionID"]);
  const model = `${String(info["providerID"])}/${String(info["modelID"])}`;
  const isMain = reading.isMain(session);
  if (isMain) recover(reading);
  const isSummary = info["summary"] === true || info["mode"] === "compaction";
  reading.setMessage(id, { session, request: "open", model, ...(isSummary ? { isSummary } : {}) });
  reading.scribe.startModel(id, { model, ...reading.originOf(session) });
  // The abort came too early and had no effect, so it is repeated.
  if (isMain && turn?.isInterrupted === true) reading.replies.push(requestAbort(session));
  return true;
}

function complete(reading: OpencodeReading, id: string, info: Properties): void {
  const message = own(reading.work.messages, id);
  if (!message || message.isComplete) return;
  const failure = toNativeError(info["error"]);
  const isMain = reading.isMain(message.session);
  // An error that does not end the turn is reported for the session, and not for the message.
  const cause = failure ?? (isMain ? reading.state.turn?.failure : undefined);
  reading.scribe.endModel(id, { error: cause && toEventError(cause) });
  reading.setMessage(id, { ...message, request: "ended", isComplete: true });
  if (!isMain) return;
  reading.changeTurn(defined({ finish: asText(info["finish"]), failure }));
  endIfIdle(reading);
}

function isComplete({ time }: Properties): boolean {
  return isRecord(time) && typeof time["completed"] === "number";
}

/** The most frequent event: it copies nothing but the text. */
export function readDelta(
  reading: OpencodeReading,
  { sessionID, messageID, partID, field, delta }: Properties,
): string | undefined {
  if (typeof partID !== "string" || typeof delta !== "string") return "a delta of no part";
  if (own(reading.work.torn, partID) || field !== "text") return undefined;
  if (reading.scribe.delta(partID, delta)) return undefined;
  const message = typeof messageID === "string" ? own(reading.work.messages, messageID) : undefined;
  const isForeign =
    !message || message.isSummary || !reading.originOf(sessionID) || own(reading.work.done, partID);
  return isForeign ? undefined : "a delta of a part that has not started";
}

export function readPart(reading: OpencodeReading, { part }: Properties): string | undefined {
  if (!isPart(part)) return "a part without an id";
  if (part.type === "compaction") return readSummary(reading, part);
  const message = own(reading.work.messages, part.messageID);
  // The part belongs to a user's message or to an earlier turn.
  if (!message) return undefined;
  const origin = reading.originOf(message.session) ?? {};
  switch (part.type) {
    case "text":
    case "reasoning":
      return message.isSummary
        ? readSummary(reading, part)
        : readText(reading, part, { kind: part.type, ...origin });
    case "tool":
      return own(reading.work.done, part.id) ? undefined : readTool(reading, part, origin);
    case "step-finish":
      return endRequest(reading, part, message);
    case "file":
      return readFile(reading, part, origin);
    default:
      return undefined;
  }
}

function readText(reading: OpencodeReading, part: Part, options: Origin & { kind: TextKind }): undefined {
  const { id, text, time } = part;
  if (typeof text !== "string" || own(reading.work.done, id)) return;
  const hasEnded = !isRecord(time) || typeof time["end"] === "number";
  reading.scribe.startText(id, options);
  if (!hasEnded) return addRest(reading, id, text);
  const shown = own(reading.scribe.transcript.texts, id)?.text ?? "";
  // The server trims the end of a text; the log keeps the model's own text.
  reading.scribe.endText(id, shown.startsWith(text) ? undefined : text);
  reading.markDone(id);
}

/** Adds the rest of a text, of which a part was reported. */
function addRest(reading: OpencodeReading, id: string, text: string): undefined {
  const open = own(reading.scribe.transcript.texts, id);
  if (!open || open.replay !== undefined || !text.startsWith(open.text)) return;
  reading.scribe.delta(id, text.slice(open.text.length));
}

function endRequest(reading: OpencodeReading, part: Part, message: Message): undefined {
  if (reading.scribe.endModel(part.messageID, { usage: toUsage(part) })) {
    reading.setMessage(part.messageID, { ...message, request: "ended" });
  }
}

/** OpenCode counts reasoning apart from the output; the log counts it as a part. Cached tokens are apart in both. */
export function toUsage({ tokens, cost }: Properties): Usage | undefined {
  if (!isRecord(tokens)) return undefined;
  const cache = toFields(tokens["cache"]);
  return {
    ...count("input_tokens", tokens["input"]),
    ...count("output_tokens", sum(tokens["output"], tokens["reasoning"])),
    ...count("reasoning_tokens", tokens["reasoning"]),
    ...count("cache_read_tokens", cache["read"]),
    ...count("cache_write_tokens", cache["write"]),
    // A cost of zero means an unknown price.
    ...(typeof cost === "number" && cost > 0 ? { cost_usd: cost } : {}),
  };
}

function sum(output: unknown, reasoning: unknown): unknown {
  return typeof output === "number" && typeof reasoning === "number" ? output + reasoning : output;
}

function count(name: keyof Usage, value: unknown): Usage {
  return typeof value === "number" && value >= 0 ? { [name]: Math.round(value) } : {};
}

function readFile(reading: OpencodeReading, part: Part, origin: Origin): undefined {
  const image = toImage(part);
  if (!image || own(reading.work.done, part.id)) return;
  reading.scribe.whole(part.id, { kind: "message", role: "assistant", content: [image] }, origin);
  reading.markDone(part.id);
}

function isPart(part: unknown): part is Part {
  if (!isRecord(part)) return false;
  return (
    typeof part["id"] === "string" &&
    typeof part["messageID"] === "string" &&
    typeof part["type"] === "string"
  );
}

/** The trigger and the summary of a compaction, before it is complete. */
function readSummary(reading: OpencodeReading, part: Part): undefined {
  const { compaction } = reading.work;
  if (part.type === "compaction") {
    reading.changeWork({ compaction: { ...compaction, trigger: triggerOf(part) } });
    return;
  }
  const { text } = part;
  if (part.type !== "text" || typeof text !== "string" || text === "") return;
  reading.changeWork({ compaction: { trigger: "auto", ...compaction, summary: text } });
}

function triggerOf(part: Part): string {
  if (part["overflow"] === true) return "overflow";
  return part["auto"] === true ? "auto" : "manual";
}

export function readCompaction(reading: OpencodeReading, { sessionID }: Properties): undefined {
  const origin = reading.originOf(sessionID);
  if (!origin) return;
  reading.scribe.compacted({ ...reading.work.compaction }, origin);
  const { compaction: _, ...work } = reading.work;
  reading.change({ work });
}
