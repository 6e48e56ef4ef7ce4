import { endTurn, type Ending, tellFailure } from "./ending.ts";
import { toEnding } from "./failure.ts";
import { type Fields, toCount, toText } from "./fields.ts";
import type { Reader } from "./reading.ts";
import { settleUsage } from "./requests.ts";
import type { ClaudeState } from "./state.ts";
import { isServing } from "./system.ts";

/** The main agent has stopped. That ends the turn, unless what it left running will wake it again. */
export const readResult: Reader = (state, line, { scribe }) => {
  const next = settleUsage(state, line, scribe);
  // It went on by itself after the turn, for a task that ended in the background.
  if (!isServing(next)) return { ...next, isIdle: true };
  const ending = toEnding(line, next.failure);
  const answer = toText(line["result"]);
  // The answer of a slash command is said nowhere else.
  if (ending.status === "completed" && !next.hasSpoken && answer !== "") {
    scribe.sayWhole(toText(line["uuid"]) || "result", answer);
  }
  if (!goesOn(next, line, ending)) return endTurn(next, ending, scribe);
  tellFailure(ending, scribe);
  const { failure: _, ...rest } = next;
  return { ...rest, isIdle: true };
};

function goesOn(state: ClaudeState, line: Fields, ending: Ending): boolean {
  if (ending.status === "interrupted") return false;
  // Words that were said into the turn and came too late for it get an answer, and a result, of their own.
  const waiting = state.tellsQueue ? Object.values(state.waiting) : [];
  if (toCount(line["queued_turn_count"]) > 0 || waiting.includes("steer")) return true;
  // The prompt itself came while the CLI was answering a task that had ended in the background.
  if (line["origin"] !== undefined && waiting.includes("prompt")) return true;
  return ending.status === "completed" && Object.keys(state.background).length > 0;
}
