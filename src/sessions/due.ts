import type { Limits } from "./deps.ts";
import type { SessionFold } from "./fold.ts";

/** What a session has to do by itself, and when. */
export interface Due {
  readonly what: "retry" | "timeout" | "silence" | "signal" | "kill" | "sleep";
  readonly at: number;
  /** How long it was to be waited in all: no clock that was set back makes it longer. */
  readonly withinMs: number;
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
    return mayEnd ? [toDue("sleep", session.lastTime, limits.idleMs)] : [];
  }
  // An agent that does not stop when asked gets a signal, and one that ignores it is killed.
  if (turn.interrupt) {
    return [
      toDue("signal", turn.interrupt.at, limits.interruptMs),
      toDue("kill", turn.interrupt.at, 2 * limits.interruptMs),
    ];
  }
  const due: Due[] = [];
  if (typeof turn.retry?.due === "number") {
    const { due: at, since = Number.NEGATIVE_INFINITY } = turn.retry;
    due.push({ what: "retry", at, withinMs: at - since });
  }
  const { spent, since } = turn.clock;
  if (since !== null)
    due.push(toDue("timeout", since, (turn.options?.timeoutMs ?? limits.turnTimeoutMs) - spent));
  const isModelsTurn = turn.pending.length === 0 && Object.keys(turn.calls).length === 0 && !turn.retry?.due;
  if (since !== null && isModelsTurn) due.push(toDue("silence", session.lastTime, limits.silenceMs));
  return due;
}

function toDue(what: Due["what"], since: number, withinMs: number): Due {
  return { what, at: since + withinMs, withinMs };
}
