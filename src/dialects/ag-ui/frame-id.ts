import type { Frame } from "../port.ts";
import { toFrameTexts } from "./frame-size.ts";

/** A place in the log's telling: the last frame of an event is called by its sequence alone, so that there is one name for it. */
export interface FramePlace {
  readonly sequence: number;
  /** Set where more frames of the same event follow. */
  readonly index?: number;
}

export function toFrames(events: readonly object[], place: { session: string; sequence: number }): Frame[] {
  const { sequence } = place;
  const texts = events.flatMap((event) => toFrameTexts(event, place));
  const last = texts.length - 1;
  return texts.map((data, index) => ({
    data,
    id: index === last ? String(sequence) : `${sequence}.${index}`,
  }));
}

/** undefined for what was never an id of this dialect. */
export function parseFrameId(text: string): FramePlace | undefined {
  const [, sequence, index] = /^(\d{1,15})(?:\.(\d{1,6}))?$/.exec(text.trim()) ?? [];
  if (sequence === undefined) return undefined;
  return { sequence: Number(sequence), ...(index === undefined ? {} : { index: Number(index) }) };
}
