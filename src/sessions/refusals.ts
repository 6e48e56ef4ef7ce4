import { SluiceError } from "../contract/index.ts";
import type { SessionFold } from "./fold/session-fold.ts";

/** The refusals of a session: the reason, and what to do about it. */

export function notFound(id: string): SluiceError {
  return new SluiceError("session_not_found", `there is no session ${id}; GET /v1/sessions lists them`);
}

export function isNotFound(error: unknown): boolean {
  return error instanceof SluiceError && error.code === "session_not_found";
}

/** For callers that wait when a session is given up. */
export function reopening(): SluiceError {
  return new SluiceError("stream_error", "the session was being reopened; try again");
}

export function refuseEnded(id: string, fold: SessionFold, runner: { readonly isEnding: boolean }): void {
  if (!fold.ended && !runner.isEnding) return;
  throw new SluiceError(
    "session_ended",
    `session ${id} has ended (${fold.ended?.reason ?? "terminated"}); create a new one`,
  );
}

export function refuseWork({ turn, inbox, command }: SessionFold): void {
  if (!turn && inbox.length === 0 && !command) return;
  throw new SluiceError(
    "session_busy",
    `${command ? "a command" : "a turn"} runs already; wait for its end, or interrupt it`,
  );
}

export function refuseTurn(what: string, fold: SessionFold, runner: { readonly isBooting: boolean }): void {
  if (!fold.command && !fold.turn && !runner.isBooting) return;
  throw new SluiceError(
    "session_busy",
    `a session cannot ${what} while a ${fold.command ? "command" : "turn"} runs; wait for its end, or interrupt it`,
  );
}
