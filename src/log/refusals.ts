import { SluiceError } from "../contract/index.ts";

/** The refusals of every log, in the same words. */

export function sessionNotFound(session: string): SluiceError {
  return new SluiceError("session_not_found", `There is no session ${session}. It may have been deleted.`, {
    session,
  });
}

export function sessionExists(session: string): SluiceError {
  return new SluiceError(
    "session_already_exists",
    `There is a session ${session} already. Use it, or choose another id.`,
    { session },
  );
}

export function fenced(session: string, facts: { epoch: number; owner: string; given: number }): SluiceError {
  return new SluiceError(
    "fenced",
    `Session ${session} is leased to ${facts.owner} since epoch ${facts.epoch}; epoch ${facts.given} writes no more. Nothing was appended.`,
    { session, ...facts },
  );
}

export function keyTaken(session: string, key: string): SluiceError {
  return new SluiceError(
    "idempotency_conflict",
    `The idempotency key ${key} was used in session ${session} already. Nothing was appended; use a new key for a new request.`,
    { session, key },
  );
}

export function cursorGone(
  session: string,
  after: number,
  position: { floor: number; head: number },
): SluiceError {
  const oldest = position.floor + 1;
  const why =
    after > position.head
      ? `The log of session ${session} ends at ${position.head}; the cursor ${after} is ahead of it.`
      : `The events of session ${session} before ${oldest} were trimmed away; the cursor ${after} lies there.`;
  return new SluiceError(
    "cursor_gone",
    `${why} Read again with a cursor from ${position.floor} to ${position.head}.`,
    {
      session,
      oldest,
      head: position.head,
    },
  );
}

export function invalidCursor(after: number): SluiceError {
  return new SluiceError("invalid_cursor", `A cursor is a whole number from 0; this one is ${after}.`, {
    after,
  });
}

export function logClosed(): SluiceError {
  return new SluiceError(
    "draining",
    "The log is closed: its process is shutting down. Try again when it is back.",
  );
}

export function outOfStep(session: string, facts: { head: number; after: number | undefined }): SluiceError {
  return new SluiceError(
    "fenced",
    `Session ${session} stands at ${facts.head}, and this was to follow ${facts.after}. Nothing was appended; open it again.`,
    { session, ...facts },
  );
}
