import { type Fields, toCount, toText } from "../fields.ts";
import { type Ending, toEnding } from "./failure.ts";
import { type ClaudeState, isServing, nextPhase, type Reader, type Reading } from "./state.ts";
import { settleUsage } from "./usage.ts";

/** The main agent has stopped. That ends the turn, unless background work will wake the agent again. */
export const readResult: Reader = (reading, line) => {
  settleUsage(reading, line);
  const { state, scribe } = reading;
  // Between turns it answers a task that ended in the background.
  if (!isServing(state)) return void reading.change({ isIdle: true });
  const ending = toEnding(line, state.failure);
  const answer = toText(line["result"]);
  // No other line has the answer of a slash command.
  if (ending.status === "completed" && !state.hasSpoken && answer !== "") {
    scribe.sayWhole(toText(line["uuid"]) || "result", answer);
  }
  if (!goesOn(state, line, ending)) return void endTurn(reading, ending);
  reportFailure(reading, ending);
  reading.change({ failure: undefined, isIdle: true });
};

function goesOn(state: ClaudeState, line: Fields, ending: Ending): boolean {
  if (ending.status === "interrupted") return false;
  // A message that came too late for the turn gets an answer, and a result, of its own.
  const waiting = state.tellsQueue ? Object.values(state.waiting) : [];
  if (toCount(line["queued_turn_count"]) > 0 || waiting.includes("steer")) return true;
  // The prompt itself came while the CLI was answering a task that had ended in the background.
  if (line["origin"] !== undefined && waiting.includes("prompt")) return true;
  return ending.status === "completed" && Object.keys(state.background).length > 0;
}

/** Ends the prompt's turn, after its error. The plan, the counts and the handshake stay. */
export function endTurn(reading: Reading, ending: Ending): void {
  reportFailure(reading, ending);
  reading.scribe.endTurn(ending);
  reading.change({
    phase: nextPhase(reading.state.phase, "ended"),
    isIdle: true,
    hasSpoken: false,
    streams: {},
    waiting: {},
    background: {},
    inputs: {},
    unpriced: undefined,
    failure: undefined,
  });
}

function reportFailure({ scribe }: Reading, { error }: Ending): void {
  if (error) scribe.add({ type: "error", data: { code: error.code, message: error.message } });
}
