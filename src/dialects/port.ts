import type { StoredEventText } from "./stored.ts";

/** One client's language. Pure: the same log gives the same bytes, live or replayed. */
export interface Dialect<State, View> {
  readonly id: string;
  initial(view: View): State;
  /** The frames of one event, each the JSON text that a client of this dialect reads. */
  project(state: State, event: StoredEventText): { state: State; frames: readonly Frame[] };
}

export interface Frame {
  /** The SSE event name, where the dialect has one. */
  readonly event?: string;
  /** One line of JSON. */
  readonly data: string;
}
