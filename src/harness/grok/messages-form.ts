import { parseOthersJson } from "../../contract/index.ts";
import type { PrintedForm } from "../acp/dialect.ts";
import { endPrompt, failTurn } from "../acp/ending.ts";
import { textOf } from "../acp/content.ts";
import { toTextFailure } from "../acp/failure.ts";
import type { Hand } from "../acp/hand.ts";
import { MAIN } from "../acp/speech.ts";
import { seeTool } from "../acp/tools.ts";
import { isRecord, type Params } from "../rpc.ts";
import { hearStreamEvent, wasStreamed } from "./stream-event.ts";
import { tellModel } from "./notification.ts";

const TYPES = new Set(["system", "stream_event", "assistant", "user", "result"]);

/** `grok -p … --output-format streaming-messages-json`: the shape of Claude Code's lines. */
export const messagesForm: PrintedForm = {
  isOf: ({ type }) => typeof type === "string" && TYPES.has(type),
  hear: hearLine,
};

function hearLine(hand: Hand, line: Params): string | undefined {
  const message = isRecord(line["message"]) ? line["message"] : {};
  switch (line["type"]) {
    case "system":
      return hearInit(hand, line);
    case "stream_event":
      return isRecord(line["event"])
        ? hearStreamEvent(hand, line["event"])
        : "a stream_event without its event";
    case "assistant":
      return hearAssistant(hand, message);
    case "user":
      for (const block of blocksOf(message)) hearToolResult(hand, block);
      return undefined;
    default:
      hearEnd(hand, line);
      return undefined;
  }
}

function hearInit(hand: Hand, { session_id: id }: Params): undefined {
  if (typeof id === "string") hand.scribe.add({ type: "session.started", native_session_id: id, data: {} });
}

/** The message again as a whole: only what was not streamed is news. */
function hearAssistant(hand: Hand, message: Params): undefined {
  const isNews = !wasStreamed(hand, message["id"]);
  for (const block of blocksOf(message)) {
    const { type, id, name, input, text, thinking } = block;
    if (type === "tool_use") {
      seeTool(hand, { toolCallId: id, toolName: name, rawInput: input }, { place: MAIN, isUpdate: true });
    }
    if (!isNews) continue;
    const native = `${String(message["id"])}:${hand.scribe.transcript.count}`;
    if (typeof text === "string") hand.scribe.sayWhole(native, text);
    if (typeof thinking === "string") hand.scribe.sayWhole(native, thinking, { kind: "reasoning" });
  }
  if (isNews) tellModel(hand, message["usage"], MAIN);
}

function hearToolResult(hand: Hand, { type, tool_use_id: id, content, is_error: failed }: Params): void {
  if (type !== "tool_result") return;
  const status = failed === true ? "failed" : "completed";
  seeTool(hand, { toolCallId: id, status, ...resultOf(content) }, { place: MAIN, isUpdate: true });
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

function hearEnd(hand: Hand, { is_error: failed, stop_reason: stopReason, errors }: Params): void {
  const [error] = Array.isArray(errors) ? errors.map(String) : [];
  if (failed !== true || stopReason === "cancelled") return endPrompt(hand, "prompt", { stopReason });
  failTurn(hand, toTextFailure(error ?? "the agent failed"));
}

function blocksOf({ content }: Params): Params[] {
  return Array.isArray(content) ? content.filter(isRecord) : [];
}
