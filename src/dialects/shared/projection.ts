import type { EventOf, EventType, SluiceEvent } from "../../contract/index.ts";
import type { Frame } from "../port.ts";

/** The projection of one event: a dialect's state before it, and the changes that the event makes. */
export class Projection<State> {
  readonly event: SluiceEvent;
  #state: State;

  constructor(state: State, event: SluiceEvent) {
    this.#state = state;
    this.event = event;
  }

  get state(): State {
    return this.#state;
  }

  change(change: Partial<State>): void {
    this.#state = { ...this.#state, ...change };
  }
}

/** One function for each event type that a dialect shows. */
export type Projectors<P> = { readonly [T in EventType]?: (projection: P, event: EventOf<T>) => void };

export function findProjector<P>(
  projectors: Projectors<P>,
  type: EventType,
): ((projection: P, event: SluiceEvent) => void) | undefined {
  return projectors[type] as ((projection: P, event: SluiceEvent) => void) | undefined;
}

/** Whether a stream of the session ends with this event. */
export function endsSession(type: EventType): boolean {
  return type === "session.ended" || type === "session.deleted";
}

/** Whether this event is the last one of its turn. The turn of a withdrawn input ends before it starts. */
export function endsTurn(type: EventType): boolean {
  return type === "turn.ended" || type === "input.withdrawn";
}

export const NO_FRAMES: readonly Frame[] = [];
