import type { EventDraft } from "../../contract/index.ts";
import { defined } from "../../contract/own-keys.ts";
import type { TurnFold } from "../fold/turn-fold.ts";
import { TIME_LIMIT_FAILURES, type TurnFailure } from "./time-limit.ts";

/** The engine's own reasons to interrupt a turn, by the `by` of the interrupt. */
const FAILURES: Readonly<Record<string, (turn: TurnFold) => TurnFailure>> = {
  ...TIME_LIMIT_FAILURES,
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

/** That failure as an error event, for dialects without turns. It precedes the end of the turn. */
export function engineFailureEvents(turn: TurnFold, by: string | undefined): EventDraft[] {
  const failure = engineFailure({ ...turn, interrupt: { at: 0, ...defined({ by }) } });
  if (!failure) return [];
  const { code, message } = failure.error;
  return [{ type: "error", source: "daemon", data: { code, message } }];
}
