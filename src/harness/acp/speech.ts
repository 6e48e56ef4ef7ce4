import { isRecord, type Params } from "../rpc.ts";
import { own, without } from "../transcript.ts";
import { toParts } from "./content.ts";
import type { Hand } from "./hand.ts";
import type { Speech } from "./state.ts";

/** The agent itself, as a place; a sub-agent's place is its session id. */
export const MAIN = "";

/** A piece of a message or of a thought. */
export function hearChunk(
  hand: Hand,
  update: Params,
  options: { kind: Speech["kind"]; place: string },
): boolean {
  const { content, messageId } = update;
  if (!isRecord(content)) return false;
  const message = typeof messageId === "string" ? messageId : undefined;
  if (content["type"] !== "text") return hearOther(hand, content, options.place);
  const { text } = content;
  if (typeof text !== "string") return false;
  if (text === "") return true;
  hand.scribe.delta(speechAt(hand, { ...options, message }), text);
  return true;
}

/** Something else begins: what was being said at this place is complete. */
export function endSpeech(hand: Hand, place: string): void {
  const speech = own(hand.state.speaking, place);
  if (!speech) return;
  hand.scribe.endText(speech.native);
  hand.note({ speaking: without(hand.state.speaking, place) });
}

export function endAllSpeech(hand: Hand): void {
  for (const place of Object.keys(hand.state.speaking)) endSpeech(hand, place);
}

/** The stream was cut and the agent will say it all again. */
export function tearSpeech(hand: Hand, place: string): void {
  const speech = own(hand.state.speaking, place);
  if (!speech) return;
  hand.scribe.tear();
  hand.note({ speaking: {} });
}

/** The native parent of what happens at a place. */
export function parentOf(place: string): string | undefined {
  if (place === MAIN) return undefined;
  return place.startsWith(CALL) ? place.slice(CALL.length) : childAnchor(place);
}

const CALL = "call:";

/** The place of a sub-agent that is known only by its running call. */
export function callPlace(call: string): string {
  return `${CALL}${call}`;
}

/** The name under which a sub-agent's call stays known after it has been closed. */
export function childAnchor(session: string): string {
  return `session:${session}`;
}

export function isAnchor(native: string): boolean {
  return native.startsWith("session:");
}

function speechAt(
  hand: Hand,
  { kind, place, message }: { kind: Speech["kind"]; place: string; message: string | undefined },
): string {
  const current = own(hand.state.speaking, place);
  if (current && current.kind === kind && (message === undefined || current.message === message)) {
    return current.native;
  }
  endSpeech(hand, place);
  const number = hand.scribe.transcript.count + 1;
  const native = message === undefined ? `${kind}-${number}` : `${message}-${number}`;
  hand.scribe.startText(native, { kind, parent: parentOf(place) });
  const speech: Speech = { native, kind, ...(message === undefined ? {} : { message }) };
  hand.note({ speaking: { ...hand.state.speaking, [place]: speech } });
  return native;
}

/** An image or a resource in a message comes in one piece. */
function hearOther(hand: Hand, content: Params, place: string): boolean {
  const parts = toParts(content);
  if (parts.length === 0) return false;
  endSpeech(hand, place);
  const item = { kind: "message" as const, role: "assistant" as const, content: parts };
  hand.scribe.whole(undefined, item, { parent: parentOf(place) });
  return true;
}
