import type { EventData, EventDraft, SessionSpec } from "../../contract/index.ts";
import { outcomeOf } from "../turn/rules.ts";
import { closeTurn, type TurnOutcome } from "../turn/turn-end.ts";
import type { Drafts } from "../fold/drafts.ts";
import type { SessionFold } from "../fold/session-fold.ts";
import { startTurn } from "../turn/turn-start.ts";

type EventOf<T extends EventDraft["type"]> = Extract<EventDraft, { type: T }>;

/** Why the engine ends a process. It decides what the exit means. */
export type Stop = "idle" | "interrupt" | "terminate" | "remove" | "failure";

export const TERMINATED: TurnOutcome = { status: "interrupted", stopReason: "terminated" };

/** Why the session cannot go on; null for a session that outlasts its agent. */
export function mustEnd({ fold, spec }: { fold: SessionFold; spec: SessionSpec }): string | null {
  return spec.lasting === true ? null : fold.mustEnd;
}

/** The events that follow from the end of a process: the turn's end first, then the process's, then the session's. */
export function endProcess(
  fold: SessionFold,
  drafts: Drafts,
  ended: EventData<"process.ended">,
  stop: Stop | undefined,
  { verdict, lasting = false }: { verdict?: string | undefined; lasting?: boolean } = {},
): void {
  const said: EventDraft = { type: "process.ended", source: "daemon", data: ended };
  if (stop === "terminate" || stop === "remove") {
    drafts.addAll(closeTurn(fold, TERMINATED));
    return drafts.add(said);
  }
  if (fold.mustEnd !== null && !lasting) {
    drafts.add(said);
    return endSession(fold, drafts, sessionFailure(fold.mustEnd, ended));
  }
  if (!fold.turn) return drafts.add(said);
  const isLost = ended.reason === "lost";
  const message = isLost
    ? "the agent's process was lost, with its exit status; a new message starts it again"
    : `the agent's process ${describeExit(ended)} in the middle of a turn${verdict === undefined ? "" : `: ${verdict}`}`;
  const outcome = outcomeOf(fold, {
    status: "failed",
    stopReason: isLost ? "agent_lost" : "agent_exited",
    error: { code: "agent_process_exited", message },
  });
  const wasWanted = fold.turn.interrupt !== null;
  drafts.addAll(closeTurn(fold, outcome));
  drafts.add(said);
  if (!isLost && !wasWanted && !lasting) endSession(fold, drafts, sessionFailure(message, ended));
}

/** Ends the session. Every queued input gets its turn's terminal event first. */
export function endSession(fold: SessionFold, drafts: Drafts, event: EventOf<"session.ended">): void {
  const { reason, message = "the session ended before this message was handled" } = event.data;
  const error = { code: "session_ended", message };
  const isTerminated = reason === "terminated";
  endTurns(fold, drafts, isTerminated ? TERMINATED : { status: "failed", stopReason: "agent_exited", error });
  drafts.add(event);
}

/** Ends the running turn. Every queued input starts and ends as a turn of its own. */
export function endTurns(fold: SessionFold, drafts: Drafts, ofQueued: TurnOutcome = TERMINATED): void {
  drafts.addAll(closeTurn(fold, TERMINATED));
  while (fold.inbox.length > 0) {
    startTurn(fold, drafts);
    drafts.addAll(closeTurn(fold, ofQueued));
  }
}

/** Starts and ends the turn of the oldest queued input, which a client withdrew. */
export function endWithdrawn(fold: SessionFold, drafts: Drafts): void {
  startTurn(fold, drafts);
  drafts.addAll(closeTurn(fold, { status: "interrupted", stopReason: "interrupted" }));
}

/** Ends a turn that could not start: the client waits for its terminal event. */
export function endUnstarted(
  fold: SessionFold,
  drafts: Drafts,
  error: { readonly code: string; readonly message: string },
): void {
  if (fold.processOpen) {
    drafts.add({
      type: "process.ended",
      source: "daemon",
      data: { process: fold.processes, reason: "lost" },
    });
  }
  if (!fold.turn) startTurn(fold, drafts);
  drafts.add({ type: "error", source: "daemon", data: { ...error } });
  drafts.addAll(closeTurn(fold, { status: "failed", stopReason: "agent_lost", error: { ...error } }));
}

export function sessionFailure(
  message: string,
  ended?: EventData<"process.ended">,
): EventOf<"session.ended"> {
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
