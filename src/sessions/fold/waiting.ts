import type { EventDraft } from "../../contract/index.ts";
import type { SessionFold } from "./session-fold.ts";
import type { TurnFold } from "./turn-fold.ts";

/** The event for a turn that begins to wait for its application, or goes on. Pure. */
export function waitingChange(fold: SessionFold): EventDraft | undefined {
  const { turn } = fold;
  if (!turn || turn.retry) return undefined;
  if (turn.pending.length === 0) {
    if (turn.waitingFor.length === 0) return undefined;
    return { type: "turn.resumed", source: "daemon", data: { turn_id: turn.id, reason: "answered" } };
  }
  const { pending, waitingFor } = turn;
  // With fewer requests the event is repeated, too: the client gets the remaining ones.
  const isNews = pending.length !== waitingFor.length || pending.some(({ id }) => !waitingFor.includes(id));
  // A budget that is used up stops everything.
  if (!isNews || (somethingRuns(turn) && !fold.reached)) return undefined;
  return {
    type: "turn.waiting",
    source: "daemon",
    data: { turn_id: turn.id, actions: turn.pending.map(({ kind, id }) => ({ kind, id })) },
  };
}

/**
 * Whether at least one open call is running. A call is not running while it, or the sub-agent behind it, waits for a
 * client's answer.
 */
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
