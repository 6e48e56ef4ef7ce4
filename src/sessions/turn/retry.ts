import { defined } from "../../contract/own-keys.ts";
import type { EventDraft, RetryBudget, EventError, StopReason } from "../../contract/index.ts";
import type { ModelFailed } from "../../harness/port.ts";
import type { TurnFold } from "../fold/turn-fold.ts";
import type { TurnOutcome } from "./turn-end.ts";

export const DEFAULT_BUDGET: RetryBudget = { tries: 4, backoffMs: 250 };

const LONGEST_BACKOFF_MS = 60_000;

export type RetryPlan =
  | { readonly kind: "retry"; readonly events: EventDraft[] }
  | {
      readonly kind: "give-up";
      readonly events: EventDraft[];
      readonly outcome: TurnOutcome;
      readonly endsSession: boolean;
    };

/** The events after a model failure: another try, or the end of the turn. Pure. */
export function planRetry(turn: TurnFold, failure: ModelFailed, budget: RetryBudget): RetryPlan {
  const attempt = turn.attempts + 1;
  const error = { code: failure.code, message: failure.message, retryable: failure.retryable };
  const goesOn = failure.retryable && attempt < budget.tries && !turn.interrupt;
  const said: EventDraft = {
    type: "error",
    source: "agent",
    data: {
      message: failure.message,
      code: failure.code,
      details: { retrying: goesOn, attempt, max_attempts: budget.tries },
    },
  };
  if (!goesOn) {
    return {
      kind: "give-up",
      events: [said],
      endsSession: !failure.retryable,
      outcome: {
        status: "failed",
        stopReason: failure.retryable ? "retries_exhausted" : "model_error",
        error,
      },
    };
  }
  const delay = failure.retryAfterMs ?? Math.min(budget.backoffMs * 2 ** (attempt - 1), LONGEST_BACKOFF_MS);
  return {
    kind: "retry",
    events: [
      said,
      {
        type: "turn.retrying",
        source: "daemon",
        data: { turn_id: turn.id, attempt, max_attempts: budget.tries, delay_ms: delay, error },
      },
    ],
  };
}

/** The engine's own reasons to interrupt a turn, by the `by` of the interrupt. */
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

/** The failure of a turn that the engine interrupted; undefined where a client did. */
export function engineFailure(turn: TurnFold): { stopReason: StopReason; error: EventError } | undefined {
  const by = turn.interrupt?.by;
  return by === undefined || !Object.hasOwn(FAILURES, by) ? undefined : FAILURES[by]?.(turn);
}

/** That failure as an error event, for dialects without turns. It precedes the end of the turn. */
export function engineFailureEvents(turn: TurnFold, by: string | undefined): EventDraft[] {
  const failure = engineFailure({ ...turn, interrupt: { at: 0, ...defined({ by }) } });
  if (!failure) return [];
  const { code, message } = failure.error;
  return [{ type: "error", source: "daemon", data: { code, message } }];
}
