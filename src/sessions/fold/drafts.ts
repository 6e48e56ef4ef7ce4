import type { EventData, EventDraft, EventSource } from "../../contract/index.ts";
import { applyDelta, applyEvent, type SessionFold } from "./session-fold.ts";

/** The events of one append. Each is applied to the fold as it is added, so that the next can build on it. */
export class Drafts {
  readonly time: number;
  readonly events: EventDraft[] = [];
  /** Whether a turn ends in this append: snapshots are taken there. */
  endsTurn = false;
  /** Whether there is more than message text, so that alarms, deliveries and waiting callers have to be updated. */
  movesTurn = false;
  readonly #fold: SessionFold;

  constructor(fold: SessionFold, time: number) {
    this.#fold = fold;
    this.time = time;
  }

  add(event: EventDraft): void {
    const fold = this.#fold;
    const turnId =
      event.type === "input.accepted" || event.type === "turn.started" ? event.data.turn_id : fold.turn?.id;
    if (turnId !== undefined) event.turn_id = turnId;
    if (event.native_session_id === undefined && fold.nativeSessionId !== null) {
      event.native_session_id = fold.nativeSessionId;
    }
    applyEvent(fold, event, fold.head + 1, this.time);
    this.events.push(event);
    if (!isMessageText(event)) this.movesTurn = true;
    if (event.type === "turn.ended") this.endsTurn = true;
  }

  /** The hot path: one object of one shape per delta. */
  addDelta(
    data: EventData<"item.delta">,
    from: { source: EventSource; parentId: string | undefined; raw: string | undefined },
  ): void {
    const fold = this.#fold;
    applyDelta(fold, data);
    this.events.push({
      type: "item.delta",
      data,
      source: from.source,
      turn_id: fold.turn?.id,
      parent_id: from.parentId,
      native_session_id: fold.nativeSessionId ?? undefined,
      raw: from.raw,
    });
  }

  addAll(events: readonly EventDraft[]): void {
    for (const event of events) this.add(event);
  }
}

function isMessageText(event: EventDraft): boolean {
  if (event.type !== "item.started" && event.type !== "item.completed") return false;
  return event.source === "agent" && event.data.item.kind === "message";
}
