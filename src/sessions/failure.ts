import type { EventDraft, EventError, StopReason } from "../contract/index.ts";
import type { TurnFold } from "./turnFold.ts";

/** What the engine itself ends a turn for. An interrupt by one of these names is no wish of a user's. */
const FAILURES: Readonly<Record<string, (turn: TurnFold) => { stopReason: StopReason; error: EventError }>> =
  {
    timeout: () => ({
      stopReason: "timeout",
      error: {
        code: "timeout",
        message: "the turn took longer than its limit; raise turnTimeoutMs or split the work",
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
    retries: ({ retry }) => ({
      stopReason: "retries_exhausted",
      error: retry?.error ?? { code: "server_error", message: "the model failed too often", retryable: true },
    }),
  };

/** What an interrupt by the engine makes of the turn; undefined where somebody asked for it. */
export function failureBy(turn: TurnFold): { stopReason: StopReason; error: EventError } | undefined {
  const by = turn.interrupt?.by;
  return by === undefined || !Object.hasOwn(FAILURES, by) ? undefined : FAILURES[by]?.(turn);
}

/** The same for readers who see no turns: said when the engine decides, before the agent has stopped. */
export function failureOf(turn: TurnFold, by: string | undefined): EventDraft[] {
  const failure = failureBy({ ...turn, interrupt: { at: 0, ...(by === undefined ? {} : { by }) } });
  if (!failure) return [];
  const { code, message } = failure.error;
  return [{ type: "error", source: "daemon", data: { code, message } }];
}
