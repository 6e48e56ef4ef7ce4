import type { EventDraft } from "../../contract/index.ts";
import { defined } from "../../contract/own-keys.ts";
import type { TurnFold } from "../fold/turn-fold.ts";
import { TIME_LIMIT_FAILURES, type TurnFailure } from "./time-limit.ts";

/** The name of the interrupt of a turn whose budget is used up. */
export const BY_BUDGET = "budget";

export const BUDGET_FAILURE: TurnFailure = {
  stopReason: "budget_reached",
  error: {
    code: "budget_reached",
    message:
      "the budget is used up; give the session a larger one (PATCH its budget, or sluice run --budget), or split the work",
  },
};

/** The failures for which the engine interrupts a turn, by the `by` of the interrupt. */
const FAILURES: Readonly<Record<string, (turn: TurnFold) => TurnFailure>> = {
  ...TIME_LIMIT_FAILURES,
  [BY_BUDGET]: () => BUDGET_FAILURE,
  retries: ({ retry }) => ({
    stopReason: "retries_exhausted",
    error: retry?.error ?? { code: "server_error", message: "the model failed too often", retryable: true },
  }),
};

/** The failure of a turn that the engine interrupted; undefined where a client did. */
export function engineFailure(turn: TurnFold): TurnFailure | undefined {
  const by = turn.interrupt?.by;
  return by === undefined || !Object.hasOwn(FAILURES, by) ? undefined : FAILURES[by]?.(turn);
}

/** The failure of an interrupt by the engine as an error event, for dialects without turns. It precedes the end of the turn. */
export function engineFailureEvents(turn: TurnFold, by: string | undefined): EventDraft[] {
  const failure = engineFailure({ ...turn, interrupt: { at: 0, ...defined({ by }) } });
  if (!failure) return [];
  const { code, message } = failure.error;
  return [{ type: "error", source: "daemon", data: { code, message } }];
}
