import type { EventError, StopReason } from "../../contract/index.ts";
import type { Scribe } from "../scribe.ts";
import { type Ask, atTurnsEdge, type ClaudeState } from "./state.ts";

export interface Ending {
  readonly status: "completed" | "failed" | "interrupted";
  readonly stop_reason: StopReason;
  readonly error?: EventError;
}

/** The one end of the prompt's turn, its reason said before it. */
export function endTurn(state: ClaudeState, ending: Ending, scribe: Scribe<Ask>): ClaudeState {
  tellFailure(ending, scribe);
  scribe.endTurn(ending);
  return atTurnsEdge(state);
}

export function tellFailure({ error }: Ending, scribe: Scribe<Ask>): void {
  if (error) scribe.add({ type: "error", data: { code: error.code, message: error.message } });
}
