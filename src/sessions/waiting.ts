import type { EventDraft } from "../contract/index.ts";
import type { SessionFold } from "./fold.ts";
import type { TurnFold } from "./turnFold.ts";

/** The event that says that the turn has come to wait for its application, or that it goes on. Pure. */
export function waitingChange(fold: SessionFold): EventDraft | undefined {
  const { turn } = fold;
  if (!turn || turn.retry) return undefined;
  if (turn.pending.length === 0) {
    if (turn.waitingFor.length === 0) return undefined;
    return { type: "turn.resumed", source: "daemon", data: { turn_id: turn.id, reason: "answered" } };
  }
  const { pending, waitingFor } = turn;
  // What is left after some were answered is news too: whoever waits is told the rest.
  const isNews = pending.length !== waitingFor.length || pending.some(({ id }) => !waitingFor.includes(id));
  if (!isNews) return undefined;
  if (somethingRuns(turn)) return undefined;
  return {
    type: "turn.waiting",
    source: "daemon",
    data: { turn_id: turn.id, actions: turn.pending.map(({ kind, id }) => ({ kind, id })) },
  };
}

/** Whether a call is open that no request holds up: neither its own, nor one from within the sub-agent that it is. */
function somethingRuns(turn: TurnFold): boolean {
  const held = new Set<string>();
  for (const pending of turn.pending) {
    if (pending.callId !== undefined) held.add(pending.callId);
    for (let parent = pending.parentId; parent !== undefined;) {
      const [callId, call] = Object.entries(turn.calls).find(([, { itemId }]) => itemId === parent) ?? [];
      if (callId !== undefined) held.add(callId);
      parent = call?.parentId;
    }
  }
  return Object.keys(turn.calls).some((callId) => !held.has(callId));
}
