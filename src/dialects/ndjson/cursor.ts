import { SluiceError } from "../../contract/index.ts";
import type { NdjsonView } from "./state.ts";

export interface NdjsonCursor {
  /** The events behind this sequence. */
  readonly after: number;
  readonly seen?: NonNullable<NdjsonView["seen"]>;
}

/** `N`: all of the event N was seen; `N.2`: its first two frames were. */
export function parseLastEventId(text: string): NdjsonCursor {
  const [, sequence, frames] = /^(\d{1,15})(?:\.(\d{1,9}))?$/.exec(text) ?? [];
  if (sequence === undefined || (frames !== undefined && Number(sequence) === 0))
    throw new SluiceError(
      "invalid_cursor",
      `Last-Event-ID: expected the id of an event, got ${JSON.stringify(text.slice(0, 80))}.`,
    );
  if (frames === undefined) return { after: Number(sequence) };
  return { after: Number(sequence) - 1, seen: { sequence: Number(sequence), frames: Number(frames) } };
}
