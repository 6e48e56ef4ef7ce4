import type { Limits } from "./deps.ts";
import type { SessionFold } from "./fold.ts";

/** What a session has to do by itself, and when. */
export interface Due {
  readonly what: "retry" | "timeout" | "silence" | "signal" | "kill" | "sleep";
  readonly at: number;
}

/** All alarms follow from the fold, so that they ring after a restart as they would have before. Pure. */
export function dueOf(
  fold: SessionFold,
  session: { limits: Limits; hasProcess: boolean; lastTime: number },
): Due[] {
  const { limits } = session;
  const { turn } = fold;
  // Time stands still for what is frozen: an alarm would have to wake it first.
  if (fold.paused) return [];
  if (!turn) {
    // The end of an agent's process is the end of all that runs in its sandbox.
    const mayEnd = session.hasProcess && !fold.command;
    return mayEnd ? [{ what: "sleep", at: session.lastTime + limits.idleMs }] : [];
  }
  // An agent that does not stop when asked gets a signal, and one that ignores it is killed.
  if (turn.interrupt) {
    return [
      { what: "signal", at: turn.interrupt.at + limits.interruptMs },
      { what: "kill", at: turn.interrupt.at + 2 * limits.interruptMs },
    ];
  }
  const due: Due[] = [];
  if (typeof turn.retry?.due === "number") due.push({ what: "retry", at: turn.retry.due });
  const { spent, since } = turn.clock;
  if (since !== null)
    due.push({ what: "timeout", at: since + (turn.options?.timeoutMs ?? limits.turnTimeoutMs) - spent });
  const isModelsTurn = turn.pending.length === 0 && Object.keys(turn.calls).length === 0 && !turn.retry?.due;
  if (since !== null && isModelsTurn) due.push({ what: "silence", at: session.lastTime + limits.silenceMs });
  return due;
}
