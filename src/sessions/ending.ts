import type { EventData, EventDraft } from "../contract/index.ts";
import { outcomeOf } from "./admit.ts";
import { closeTurn, type TurnOutcome } from "./closing.ts";
import type { SessionFold } from "./fold.ts";

/** Why we end a process ourselves: it decides what its exit means. */
export type Stop = "idle" | "interrupt" | "terminate" | "remove" | "failure";

export const TERMINATED: TurnOutcome = { status: "interrupted", stopReason: "terminated" };

/** What the end of a process means for its turn and its session, the turn's end first. Pure. */
export function processEnd(
  fold: SessionFold,
  ended: EventData<"process.ended">,
  stop: Stop | undefined,
): EventDraft[] {
  const said: EventDraft = { type: "process.ended", source: "daemon", data: ended };
  if (stop === "terminate" || stop === "remove") return [...closeTurn(fold, TERMINATED), said];
  if (fold.mustEnd !== null) return [said, sessionFailure(fold.mustEnd, ended)];
  if (!fold.turn) return [said];
  const isLost = ended.reason === "lost";
  const message = isLost
    ? "the agent's process was lost, with its exit status; a new message starts it again"
    : `the agent's process ${describeExit(ended)} in the middle of a turn`;
  const outcome = outcomeOf(fold, {
    status: "failed",
    stopReason: isLost ? "agent_lost" : "agent_exited",
    error: { code: "agent_process_exited", message },
  });
  const wasWanted = fold.turn.interrupt !== null;
  const end = [...closeTurn(fold, outcome), said];
  return isLost || wasWanted ? end : [...end, sessionFailure(message, ended)];
}

export function sessionFailure(message: string, ended?: EventData<"process.ended">): EventDraft {
  return {
    type: "session.ended",
    source: "daemon",
    data: {
      reason: "error",
      terminated_by: ended?.reason === "exited" ? "agent" : "daemon",
      message,
      ...(ended?.exit_code === undefined ? {} : { exit_code: ended.exit_code }),
      ...(ended?.stderr === undefined ? {} : { stderr: ended.stderr }),
    },
  };
}

function describeExit({ exit_code: code, signal }: EventData<"process.ended">): string {
  if (signal !== undefined) return `was ended by ${signal}`;
  return `exited with code ${code ?? "unknown"}`;
}
