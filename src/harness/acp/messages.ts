import { isRecord } from "../fields.ts";
import type { Params } from "../rpc.ts";
import { own, without } from "../transcript.ts";
import { toParts } from "./content.ts";
import type { AcpReading } from "./dialect.ts";
import type { Speech } from "./state.ts";

/** The origin of the main agent. A sub-agent's origin is its session id, or its call. */
export const MAIN = "";

/** A piece of a message or of a thought. */
export function readChunk(
  reading: AcpReading,
  update: Params,
  options: { kind: Speech["kind"]; origin: string },
): boolean {
  const { content, messageId } = update;
  if (!isRecord(content)) return false;
  const message = typeof messageId === "string" ? messageId : undefined;
  if (content["type"] !== "text") return readOther(reading, content, options.origin);
  const { text } = content;
  if (typeof text !== "string") return false;
  if (text === "") return true;
  reading.scribe.delta(speechAt(reading, { ...options, message }), text);
  return true;
}

/** Ends the open text of an origin, because something else begins. */
export function endSpeech(reading: AcpReading, origin: string): void {
  const speech = own(reading.state.speaking, origin);
  if (!speech) return;
  reading.scribe.endText(speech.native);
  reading.change({ speaking: without(reading.state.speaking, origin) });
}

export function endAllSpeech(reading: AcpReading): void {
  for (const origin of Object.keys(reading.state.speaking)) endSpeech(reading, origin);
}

/** Forgets the open text after a cut of the stream: the agent will repeat all of it. */
export function tearSpeech(reading: AcpReading, origin: string): void {
  const speech = own(reading.state.speaking, origin);
  if (!speech) return;
  reading.scribe.tear();
  reading.change({ speaking: {} });
}

/** The native id of the call that an origin belongs to; undefined for the main agent. */
export function parentOf(origin: string): string | undefined {
  if (origin === MAIN) return undefined;
  return origin.startsWith(CALL) ? origin.slice(CALL.length) : childAnchor(origin);
}

const CALL = "call:";

/** The origin of a sub-agent that is known only by its running call. */
export function callOrigin(call: string): string {
  return `${CALL}${call}`;
}

/** The native id under which a sub-agent's call is kept after its end. */
export function childAnchor(session: string): string {
  return `session:${session}`;
}

export function isAnchor(native: string): boolean {
  return native.startsWith("session:");
}

function speechAt(
  reading: AcpReading,
  { kind, origin, message }: { kind: Speech["kind"]; origin: string; message: string | undefined },
): string {
  const current = own(reading.state.speaking, origin);
  if (current && current.kind === kind && (message === undefined || current.message === message)) {
    return current.native;
  }
  endSpeech(reading, origin);
  const number = reading.scribe.transcript.count + 1;
  const native = message === undefined ? `${kind}-${number}` : `${message}-${number}`;
  reading.scribe.startText(native, { kind, parent: parentOf(origin) });
  const speech: Speech = { native, kind, ...(message === undefined ? {} : { message }) };
  reading.change({ speaking: { ...reading.state.speaking, [origin]: speech } });
  return native;
}

/** An image or a resource in a message comes in one piece. */
function readOther(reading: AcpReading, content: Params, origin: string): boolean {
  const parts = toParts(content);
  if (parts.length === 0) return false;
  endSpeech(reading, origin);
  const item = { kind: "message" as const, role: "assistant" as const, content: parts };
  reading.scribe.whole(undefined, item, { parent: parentOf(origin) });
  return true;
}
