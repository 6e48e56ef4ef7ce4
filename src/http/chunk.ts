import type { Dialect, Frame } from "../dialects/port.ts";
import type { StoredEvent } from "../log/port.ts";

/** Consecutive events of one session in one view, projected and framed once for all their readers. */
export interface Chunk<State = unknown> {
  /** The sequence before the first event. */
  readonly from: number;
  /** The sequence of the last event, whether or not it had a frame. */
  readonly to: number;
  readonly bytes: Uint8Array;
  readonly events: number;
  readonly frames: number;
  /** The dialect's state behind the last event. */
  readonly state: State;
  /** The stream ends behind this chunk. */
  readonly last: boolean;
}

/** How a frame stands on the wire. `id` is the event's sequence, on the last frame of each event only. */
export interface Framing {
  readonly id: string;
  /** UTF-8 unless the frames are bytes, one for each character. */
  readonly encoding?: "latin1";
  frame(frame: Frame, id: number | undefined): string;
}

export function toChunk<State, View>(
  events: readonly StoredEvent[],
  start: { from: number; state: State; dialect: Dialect<State, View>; framing: Framing },
): Chunk<State> {
  const { dialect, framing } = start;
  let { state, from: to } = start;
  let text = "";
  let frames = 0;
  let last = false;
  for (const event of events) {
    const projected = dialect.project(state, event);
    state = projected.state;
    to = event.sequence;
    const count = projected.frames.length;
    for (let index = 0; index < count; index++) {
      const frame = projected.frames[index] as Frame;
      // Only the last frame of an event may move the client's cursor, or a cut between two would lose the second.
      text += framing.frame(frame, index === count - 1 ? event.sequence : undefined);
    }
    frames += count;
    if (projected.last) {
      last = true;
      break;
    }
  }
  return {
    from: start.from,
    to,
    bytes: Buffer.from(text, framing.encoding ?? "utf8"),
    events: events.length,
    frames,
    state,
    last,
  };
}
