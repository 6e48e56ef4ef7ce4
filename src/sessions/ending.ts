import type { EventData, EventDraft } from "../contract/index.ts";
import { outcomeOf } from "./admit.ts";
import { closeTurn, type TurnOutcome } from "./closing.ts";
import type { Drafts } from "./drafts.ts";
import type { SessionFold } from "./fold.ts";
import { startTurn } from "./start.ts";

type EventOf<T extends EventDraft["type"]> = Extract<EventDraft, { type: T }>;

/** Why we end a process ourselves: it decides what its exit means. */
export type Stop = "idle" | "interrupt" | "terminate" | "remove" | "failure";

export const TERMINATED: TurnOutcome = { status: "interrupted", stopReason: "terminated" };

/** What the end of a process means for its turn and its session, the turn's end first. */
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

/** Every input that was accepted gets its one terminal event, also those whose turn had not come. */
export function endSession(fold: SessionFold, drafts: Drafts, event: EventOf<"session.ended">): void {
  const { reason, message = "the session ended before this message was handled" } = event.data;
  const error = { code: "session_ended", message };
  drafts.addAll(closeTurn(fold, TERMINATED));
  while (fold.inbox.length > 0) {
    startTurn(fold, drafts);
    const outcome: TurnOutcome =
      reason === "terminated" ? TERMINATED : { status: "failed", stopReason: "agent_exited", error };
    drafts.addAll(closeTurn(fold, outcome));
  }
  drafts.add(event);
}

/** The oldest queued input is given up before its turn: that turn starts and ends at once. */
export function endWithdrawn(fold: SessionFold, drafts: Drafts): void {
  startTurn(fold, drafts);
  drafts.addAll(closeTurn(fold, { status: "interrupted", stopReason: "interrupted" }));
}

/** A turn that could not even start still starts and ends: its sender waits for one terminal event. */
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
