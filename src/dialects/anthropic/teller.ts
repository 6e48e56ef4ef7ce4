import type { SluiceEvent } from "../../contract/index.ts";
import type { Frame } from "../port.ts";
import { toEventId } from "./ids.ts";
import type { AnthropicState } from "./state.ts";

/** Tells one event of the log: the frames that it becomes, and what is open behind it. */
export class Teller {
  readonly event: SluiceEvent;
  readonly frames: Frame[] = [];
  #state: AnthropicState;

  constructor(state: AnthropicState, event: SluiceEvent) {
    this.event = event;
    this.#state = state;
  }

  get state(): AnthropicState {
    return this.#state;
  }

  change(change: Partial<AnthropicState>): void {
    this.#state = { ...this.#state, ...change };
  }

  idOf(sequence = this.event.sequence, index = 0): string {
    return toEventId(this.event.session_id, sequence, index);
  }

  /** An event as it is stored; it is processed when it is told. */
  say(type: string, fields: object = {}, id = this.idOf()): string {
    const told = { ...fields, id, type, processed_at: this.event.time };
    this.frames.push(this.#frame(type, told, id));
    return id;
  }

  /** A client's own event that waits for its turn. */
  queue(type: string, fields: object, id: string): void {
    if (this.#state.view.list) return;
    const told = { ...fields, id, type, processed_at: null };
    // Another id on the wire than when it is processed, so that a reader resumes behind the one that it saw.
    this.frames.push(this.#frame(type, told, `${id}-queued`));
  }

  /** A preview: no event of its own, and no place to resume from. */
  preview(type: string, fields: object): void {
    this.frames.push(this.#frame(type, { type, ...fields }, null));
  }

  #frame(type: string, data: object, id: string | null): Frame {
    return { event: this.#state.view.legacy ? "message" : type, data: JSON.stringify(data), id };
  }
}

export function without<T>(record: Readonly<Record<string, T>>, key: string): Readonly<Record<string, T>> {
  if (!Object.hasOwn(record, key)) return record;
  const { [key]: _, ...rest } = record;
  return rest;
}
