import type { Hand } from "../acp/hand.ts";
import { MAIN } from "../acp/speech.ts";
import { isRecord, type Params } from "../rpc.ts";
import { tellModel } from "./notification.ts";

/** One event of a streamed message, in the shape of Anthropic's API. */
export function hearStreamEvent(hand: Hand, event: Params): string | undefined {
  const { type, index, message, content_block: block, delta, usage } = event;
  switch (type) {
    case "message_start":
      hand.note({ aside: { ...hand.state.aside, message: isRecord(message) ? String(message["id"]) : "" } });
      return undefined;
    case "content_block_start":
      return isRecord(block) ? startBlock(hand, index, block) : "a content block without its content";
    case "content_block_delta":
      return isRecord(delta) ? hearDelta(hand, index, delta) : "a delta without its content";
    case "content_block_stop":
      hand.scribe.endText(nativeOf(hand, index));
      return undefined;
    case "message_delta":
      tellModel(hand, usage, MAIN);
      return undefined;
    case "message_stop":
    case "ping":
      return undefined;
    default:
      return `an unknown stream event: ${String(type).slice(0, 60)}`;
  }
}

export function wasStreamed(hand: Hand, message: unknown): boolean {
  return hand.state.aside["message"] === message;
}

function startBlock(hand: Hand, index: unknown, block: Params): undefined {
  const { type, id, name } = block;
  if (type === "tool_use") {
    hand.scribe.startCall(String(id), { name: String(name) });
    hand.note({ aside: { ...hand.state.aside, [`block:${String(index)}`]: String(id) } });
    return;
  }
  hand.scribe.startText(nativeOf(hand, index), { kind: type === "thinking" ? "reasoning" : "text" });
}

function hearDelta(hand: Hand, index: unknown, delta: Params): string | undefined {
  const { type, text, thinking, partial_json: json } = delta;
  if (type === "signature_delta") return undefined;
  if (type === "input_json_delta") {
    const call = hand.state.aside[`block:${String(index)}`];
    if (call !== undefined && typeof json === "string") hand.scribe.argumentDelta(call, json);
    return undefined;
  }
  const words = text ?? thinking;
  if (typeof words !== "string") return `an unknown delta: ${String(type).slice(0, 60)}`;
  return hand.scribe.delta(nativeOf(hand, index), words)
    ? undefined
    : "a delta of a block that has not started";
}

function nativeOf(hand: Hand, index: unknown): string {
  return `${hand.state.aside["message"] ?? ""}:${String(index)}`;
}
