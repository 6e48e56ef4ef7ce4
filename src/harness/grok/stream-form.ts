import type { PrintedForm } from "../acp/dialect.ts";
import { endPrompt, failTurn } from "../acp/ending.ts";
import { toTextFailure } from "../acp/failure.ts";
import type { Hand } from "../acp/hand.ts";
import { hearChunk, MAIN, tearSpeech } from "../acp/speech.ts";
import { seeTool } from "../acp/tools.ts";
import { hearUpdate } from "../acp/updates.ts";
import type { Params } from "../rpc.ts";
import { own } from "../transcript.ts";
import { tellModel } from "./notification.ts";

const TYPES = new Set([
  "text",
  "thought",
  "tool_call",
  "tool_call_update",
  "plan",
  "usage",
  "available_commands",
  "error",
  "end",
]);

/** `grok -p … --output-format streaming-json`: ACP's updates, flattened. */
export const streamForm: PrintedForm = {
  isOf: ({ type, event }) => typeof type === "string" && TYPES.has(type) && event === undefined,
  hear: hearLine,
};

/** A first piece this long does not come again by chance. */
const TELLING = 8;

function hearLine(hand: Hand, line: Params): string | undefined {
  switch (line["type"]) {
    case "text":
      return hearText(hand, line["data"], "text");
    case "thought":
      return hearText(hand, line["data"], "reasoning");
    case "tool_call":
    case "tool_call_update": {
      const { status, ...fields } = line;
      const known = typeof status === "string" && status !== "pending" ? { ...fields, status } : fields;
      const isRead = seeTool(hand, known, { place: MAIN, isUpdate: line["type"] === "tool_call_update" });
      return isRead ? undefined : "a malformed tool call";
    }
    case "plan":
      return hearUpdate(hand, { update: { sessionUpdate: "plan", entries: line["entries"] } });
    case "usage":
      tellModel(hand, line["usage"], MAIN);
      return undefined;
    case "error":
      failTurn(hand, toTextFailure(String(line["message"])));
      return undefined;
    case "end":
      end(hand, line);
      return undefined;
    default:
      return undefined;
  }
}

/** After a cut stream it prints all of it again without a word: a text that begins anew is the same text. */
function hearText(hand: Hand, data: unknown, kind: "text" | "reasoning"): string | undefined {
  if (typeof data !== "string") return `a ${kind} without its data`;
  const first = `first:${kind}`;
  const speech = own(hand.state.speaking, MAIN);
  if (speech?.kind === kind && data.length >= TELLING && data === hand.state.aside[first])
    tearSpeech(hand, MAIN);
  if (speech?.kind !== kind) hand.note({ aside: { ...hand.state.aside, [first]: data } });
  hearChunk(hand, { content: { type: "text", text: data } }, { kind, place: MAIN });
  return undefined;
}

function end(hand: Hand, { sessionId, stopReason }: Params): void {
  if (typeof sessionId === "string") {
    hand.scribe.add({ type: "session.started", native_session_id: sessionId, data: {} });
  }
  endPrompt(hand, "prompt", { stopReason });
}
