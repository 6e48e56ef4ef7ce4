import type { Frame } from "../port.ts";

/** The position of a frame. The id of an event's last frame is the event's sequence alone. */
export interface FramePosition {
  readonly sequence: number;
  /** The frame's index, if more frames of the event follow. */
  readonly index?: number;
}

export function toFrames(
  events: readonly object[],
  position: { session: string; sequence: number },
): Frame[] {
  const { sequence } = position;
  const texts = events.flatMap((event) => toFrameTexts(event, position));
  const last = texts.length - 1;
  return texts.map((data, index) => ({
    data,
    id: index === last ? String(sequence) : `${sequence}.${index}`,
  }));
}

/** @deprecated Use `FramePosition`. */
export type FramePlace = FramePosition;

/** Undefined for text that is no frame id. */
export function parseFrameId(text: string): FramePosition | undefined {
  const [, sequence, index] = /^(\d{1,15})(?:\.(\d{1,6}))?$/.exec(text.trim()) ?? [];
  if (sequence === undefined) return undefined;
  return { sequence: Number(sequence), ...(index === undefined ? {} : { index: Number(index) }) };
}

/** Clients refuse frames over 10 MB; the margin is for escapes and other fields. */
const MAX_FRAME = 8_000_000;
const MAX_DELTA = 1_000_000;

/** The position of the whole event in the log. A frame that is made of several events has no sequence. */
export interface EventPosition {
  readonly session: string;
  readonly sequence?: number;
}

/**
 * The texts of an event's frames: one, unless it is too large. A long delta is cut into parts; other long texts are
 * shortened with a note.
 */
export function toFrameTexts(event: object, position: EventPosition): string[] {
  const text = JSON.stringify(event);
  if (text.length <= MAX_FRAME) return [text];
  const { delta } = event as { delta?: unknown };
  if (typeof delta === "string")
    return cut(delta).flatMap((part) => JSON.stringify({ ...event, delta: part }));
  for (let longest = MAX_FRAME / 2; longest >= 1_000; longest /= 2) {
    const shortened = JSON.stringify(shorten(event, longest, position));
    if (shortened.length <= MAX_FRAME) return [shortened];
  }
  return [JSON.stringify(shorten(event, 100, position))];
}

function shorten(value: unknown, longest: number, position: EventPosition): unknown {
  if (typeof value === "string")
    return value.length <= longest ? value : shortenText(value, longest, position);
  if (Array.isArray(value)) return value.map((entry) => shorten(entry, longest, position));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, entry]) => [key, shorten(entry, longest, position)]),
  );
}

function shortenText(text: string, longest: number, { session, sequence }: EventPosition): string {
  const kept = text.slice(0, atCharacter(text, Math.floor(longest)));
  const events = `GET /v1/sessions/${encodeURIComponent(session)}/events`;
  const where =
    sequence === undefined
      ? events
      : `event ${sequence}: ${events}?offset=${sequence - 1}&limit=1&extensions=true`;
  const left = text.length - kept.length;
  return `${kept}\n[shortened by sluice: ${left} of ${text.length} characters are left out; the session's log has the whole, ${where}]`;
}

function cut(text: string): string[] {
  const parts: string[] = [];
  for (let from = 0; from < text.length;) {
    const to = atCharacter(text, Math.min(from + MAX_DELTA, text.length));
    parts.push(text.slice(from, to));
    from = to;
  }
  return parts;
}

/** The index, or the one before it if it would split a surrogate pair. */
function atCharacter(text: string, index: number): number {
  const code = text.charCodeAt(index - 1);
  return index < text.length && code >= 0xd800 && code <= 0xdbff ? index - 1 : index;
}
