import type { EventError, StopReason } from "../../contract/index.ts";
import { toDue, type Due } from "../upkeep/alarms.ts";

/**
 * The milliseconds in which a turn has worked, and the start of its current span of work; null while the clock is
 * stopped.
 */
export interface TurnClock {
  spent: number;
  since: number | null;
}

export function startClock(time: number): TurnClock {
  return { spent: 0, since: time };
}

/** The time of work up to now. */
export function addClock({ spent, since }: TurnClock, now: number): number {
  return spent + (since === null ? 0 : Math.max(0, now - since));
}

/** The time in which a turn waits for a person, or is paused, does not count against its limit. */
export function stopClock(turn: { clock: TurnClock }, time: number): void {
  const { spent, since } = turn.clock;
  if (since !== null) turn.clock = { spent: spent + time - since, since: null };
}

export function continueClock(turn: { clock: TurnClock }, time: number): void {
  turn.clock.since ??= time;
}

/** The end of a turn that works for too long, and of a turn whose model is silent for too long. */
export function timeLimitsOf(
  turn: { clock: TurnClock; awaitsModel: boolean },
  limits: { turnTimeoutMs: number; silenceMs: number; lastTime: number },
): Due[] {
  const { spent, since } = turn.clock;
  if (since === null) return [];
  const timeout = toDue("timeout", since, limits.turnTimeoutMs - spent);
  return turn.awaitsModel ? [timeout, toDue("silence", limits.lastTime, limits.silenceMs)] : [timeout];
}

/** The end of a turn that the engine interrupted. */
export interface TurnFailure {
  readonly stopReason: StopReason;
  readonly error: EventError;
}

/** The ends of turns that reached a limit, by the `by` of the interrupt. */
export const TIME_LIMIT_FAILURES: Readonly<Record<"timeout" | "silence", () => TurnFailure>> = {
  timeout: () => ({
    stopReason: "timeout",
    error: {
      code: "timeout",
      message:
        "the turn took longer than its limit; raise the turn's timeoutMs or the session's turnTimeoutMs, or split the work",
    },
  }),
  silence: () => ({
    stopReason: "timeout",
    error: {
      code: "model_timeout",
      message:
        "the model said nothing for too long, and the agent told of no retry; raise silenceTimeoutMs or look at the model's side",
      retryable: true,
    },
  }),
};
