import type { Params } from "../rpc.ts";
import type { TextKind } from "../transcript.ts";
import { own } from "../transcript.ts";
import { placeOf, type Reading } from "./reading.ts";

/** More of a message, a thought or a plan. False where the line says nothing that could be shown. */
export function addText(reading: Reading, params: Params, kind: TextKind): boolean {
  const { itemId, delta, threadId } = params;
  if (typeof itemId !== "string" || typeof delta !== "string") return false;
  const { scribe } = reading;
  if (scribe.delta(itemId, delta)) return true;
  // A thought starts with its first word, since many have none; a sub-agent's message may outlive the turn it began in.
  scribe.startText(itemId, { kind, ...placeOf(reading, asThread(threadId)) });
  return scribe.delta(itemId, delta);
}

/** The next part of a summary stands in a paragraph of its own. */
export function addPart(reading: Reading, params: Params): boolean {
  const { itemId, summaryIndex } = params;
  if (typeof itemId !== "string") return false;
  const open = own(reading.scribe.transcript.texts, itemId);
  if (open && open.text !== "" && summaryIndex !== 0) reading.scribe.delta(itemId, "\n\n");
  return true;
}

export function endText(
  reading: Reading,
  id: string,
  text: string,
  kind: TextKind,
  thread: string | undefined,
): void {
  const { scribe } = reading;
  const open = own(scribe.transcript.texts, id);
  if (open) {
    scribe.endText(id, text.startsWith(open.text) ? text : undefined);
    return;
  }
  if (text !== "") scribe.sayWhole(id, text, { kind, ...placeOf(reading, thread) });
}

export function asThread(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
