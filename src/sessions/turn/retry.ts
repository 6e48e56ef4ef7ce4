import type { EventDraft, RetryBudget } from "../../contract/index.ts";
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
export function planRetry(
  turn: TurnFold,
  failure: ModelFailed,
  budget: RetryBudget,
  { until, now = 0 }: { until?: number | undefined; now?: number } = {},
): RetryPlan {
  const attempt = turn.attempts + 1;
  const error = { code: failure.code, message: failure.message, retryable: failure.retryable };
  const isLimited = until !== undefined && budget.untilReset === true;
  const goesOn = failure.retryable && (attempt < budget.tries || isLimited) && !turn.interrupt;
  const failed: EventDraft = {
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
      events: [failed],
      endsSession: !failure.retryable,
      outcome: {
        status: "failed",
        stopReason: failure.retryable ? "retries_exhausted" : "model_error",
        error,
      },
    };
  }
  const reset = isLimited ? { until: new Date(until).toISOString() } : {};
  const wait = isLimited ? Math.max(0, until - now) : failure.retryAfterMs;
  const delay = wait ?? Math.min(budget.backoffMs * 2 ** (attempt - 1), LONGEST_BACKOFF_MS);
  return {
    kind: "retry",
    events: [
      failed,
      {
        type: "turn.retrying",
        source: "daemon",
        data: { turn_id: turn.id, attempt, max_attempts: budget.tries, delay_ms: delay, error, ...reset },
      },
    ],
  };
}
