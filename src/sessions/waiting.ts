import type { EventDraft } from "../contract/index.ts";
import type { SessionFold } from "./fold.ts";

/** The event that says that the turn has come to wait for its application, or that it goes on. Pure. */
export function waitingChange(fold: SessionFold): EventDraft | undefined {
  const { turn } = fold;
  if (!turn || turn.retry) return undefined;
  if (turn.pending.length === 0) {
    if (turn.waitingFor.length === 0) return undefined;
    return { type: "turn.resumed", source: "daemon", data: { turn_id: turn.id, reason: "answered" } };
  }
  const isNews = turn.pending.some((pending) => !turn.waitingFor.includes(pending.id));
  if (!isNews) return undefined;
  const gated = new Set(turn.pending.map((pending) => pending.callId));
  const somethingRuns = Object.keys(turn.calls).some((callId) => !gated.has(callId));
  if (somethingRuns) return undefined;
  return {
    type: "turn.waiting",
    source: "daemon",
    data: { turn_id: turn.id, actions: turn.pending.map(({ kind, id }) => ({ kind, id })) },
  };
}
