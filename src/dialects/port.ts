import type { EventType } from "../contract/index.ts";

/** A projection of the log for one kind of client. Pure: the same log gives the same bytes, live or replayed. */
export interface Dialect<State, View> {
  readonly id: string;
  /**
   * The events at which a projection can start. "none": any event, because the state is the view alone. "turn": the
   * start of a turn, where the state is initial.
   */
  readonly memory: "none" | "turn";
  /** Whether the projection needs the events' native lines. */
  wantsRaw?(view: View): boolean;
  initial(view: View): State;
  project(state: State, event: StoredEventText): Projected<State>;
}

export interface Projected<State> {
  readonly state: State;
  readonly frames: readonly Frame[];
  /** Whether the stream ends after these frames. */
  readonly last?: boolean;
}

export interface Frame {
  /** The SSE event name, if the dialect has one. */
  readonly event?: string;
  /** One line of JSON. */
  readonly data: string;
  /** The SSE id, if the dialect has its own cursors; null for a frame that no reader can resume from. */
  readonly id?: string | null;
}

/** A committed event as the log's own text; a dialect parses it only if it has to. */
export interface StoredEventText {
  readonly sequence: number;
  readonly type: EventType;
  readonly body: string;
  readonly raw?: string;
}
