import type { StoredEventText } from "./stored.ts";

/** One client's language. Pure: the same log gives the same bytes, live or replayed. */
export interface Dialect<State, View> {
  readonly id: string;
  /**
   * How far back a reader that joins in the middle has to fold: "none" where the state is the view alone,
   * "turn" where it is trivial at each turn's start.
   */
  readonly memory: "none" | "turn";
  /** Whether the events have to be read with their native lines. */
  wantsRaw?(view: View): boolean;
  initial(view: View): State;
  project(state: State, event: StoredEventText): Projected<State>;
}

export interface Projected<State> {
  readonly state: State;
  /** The frames of one event, each the JSON text that a client of this dialect reads. */
  readonly frames: readonly Frame[];
  /** Nothing comes behind these frames: the stream ends. */
  readonly last?: boolean;
}

export interface Frame {
  /** The SSE event name, where the dialect has one. */
  readonly event?: string;
  /** One line of JSON. */
  readonly data: string;
  /** Where a reader of SSE resumes behind, where the dialect has its own cursors; null for a frame that is no such place. */
  readonly id?: string | null;
}
