import { SluiceError } from "../contract/index.ts";
import type { SessionFold } from "./fold/session-fold.ts";

/** The refusals of a session: the reason, and what to do about it. */

export function notFound(id: string): SluiceError {
  return new SluiceError("session_not_found", `there is no session ${id}; GET /v1/sessions lists them`);
}

export function isNotFound(error: unknown): boolean {
  return error instanceof SluiceError && error.code === "session_not_found";
}

/** The error for callers that wait in a session that has to be opened again. */
export function reopening(): SluiceError {
  return new SluiceError("stream_error", "the session was being reopened; try again");
}

export function refuseEnded(id: string, fold: SessionFold, runner: { readonly isEnding: boolean }): void {
  if (!fold.ended && !runner.isEnding) return;
  const detail = `session ${id} has ended (${fold.ended?.reason ?? "terminated"}); create a new one`;
  throw new SluiceError("session_ended", detail);
}

/** Refuses a message that must not wait while a turn, a queued message or a command is there. */
export function refuseWork({ turn, inbox, command, paused }: SessionFold): void {
  if (!turn && inbox.length === 0 && !command) return;
  const work = command ? "a command" : "a turn";
  const detail = paused
    ? `the session is paused, and ${turn || command ? work : "a message"} waits in it; resume it first`
    : `${work} runs already; wait for its end, or interrupt it`;
  throw new SluiceError("session_busy", detail);
}

/** Refuses a use of the sandbox while the session moves to another: files written now would be lost. */
export function refuseMoving({ moving }: SessionFold): void {
  if (moving === undefined) return;
  const detail = `the session is being moved to ${moving.provider}; try again when it is there`;
  throw new SluiceError("session_busy", detail, { moving: moving.provider }, { retryable: true });
}

/** Refuses an operation while a turn or command runs. `what` completes "a session cannot …". */
export function refuseTurn(what: string, fold: SessionFold, runner: { readonly isBooting: boolean }): void {
  refuseMoving(fold);
  if (!fold.command && !fold.turn && !runner.isBooting) return;
  const running = fold.command ? "command" : "turn";
  const detail = fold.paused
    ? `a session cannot ${what} while it is paused in a ${running}; resume it first`
    : `a session cannot ${what} while a ${running} runs; wait for its end, or interrupt it`;
  throw new SluiceError("session_busy", detail);
}
