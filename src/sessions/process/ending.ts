import type { EventData, EventDraft, SessionSpec } from "../../contract/index.ts";
import { outcomeOf } from "../turn/rules.ts";
import { closeTurn, type TurnOutcome } from "../turn/turn-end.ts";
import type { Drafts } from "../fold/drafts.ts";
import { cutRequests } from "../fold/request-fold.ts";
import type { SessionFold } from "../fold/session-fold.ts";
import { startTurn } from "../turn/turn-start.ts";

type EventOf<T extends EventDraft["type"]> = Extract<EventDraft, { type: T }>;

/** The engine's reason to end a process. It determines the events that follow the exit. */
export type Stop = "idle" | "interrupt" | "terminate" | "remove" | "failure";

export const TERMINATED: TurnOutcome = { status: "interrupted", stopReason: "terminated" };

/** The failure that ends the session together with its agent; null for a session that goes on without it. */
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
  const processEnded: EventDraft = { type: "process.ended", source: "daemon", data: ended };
  drafts.addAll(cutRequests(fold));
  if (stop === "terminate" || stop === "remove") {
    drafts.addAll(closeTurn(fold, TERMINATED));
    return drafts.add(processEnded);
  }
  if (fold.mustEnd !== null && !lasting) {
    drafts.add(processEnded);
    return endSession(fold, drafts, sessionFailure(fold.mustEnd, ended));
  }
  const isLost = ended.reason === "lost";
  const lost = verdict === undefined ? "lost, with its exit status" : `ended (${verdict})`;
  if (!fold.turn) {
    if (isLost && verdict !== undefined) drafts.add(limitError(`the agent's process was ${lost}`));
    return drafts.add(processEnded);
  }
  const message = isLost
    ? `the agent's process was ${lost}; a new message starts it again`
    : `the agent's process ${describeExit(ended)} in the middle of a turn${verdict === undefined ? "" : `: ${verdict}`}`;
  const outcome = outcomeOf(fold, {
    status: "failed",
    stopReason: isLost ? "agent_lost" : "agent_exited",
    error: { code: "agent_process_exited", message },
  });
  const wasInterrupted = fold.turn.interrupt !== null;
  drafts.addAll(closeTurn(fold, outcome));
  drafts.add(processEnded);
  if (!isLost && !wasInterrupted && !lasting) endSession(fold, drafts, sessionFailure(message, ended));
}

/** The error for a process that a limit ended between turns: no `turn.ended` has the reason. */
function limitError(message: string): EventDraft {
  return { type: "error", source: "daemon", data: { code: "agent_process_exited", message } };
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
    drafts.addAll(cutRequests(fold));
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
