import { SluiceError } from "../contract/index.ts";

/** The refusals of every log, in the same words. */

export function sessionNotFound(session: string): SluiceError {
  const detail = `There is no session ${session}. It may have been deleted.`;
  return new SluiceError("session_not_found", detail, { session });
}

export function sessionExists(session: string): SluiceError {
  const detail = `There is a session ${session} already. Use it, or choose another id.`;
  return new SluiceError("session_already_exists", detail, { session });
}

export function fenced(session: string, facts: { epoch: number; owner: string; given: number }): SluiceError {
  const detail = `Session ${session} is leased to ${facts.owner} since epoch ${facts.epoch}; epoch ${facts.given} can no longer write. Nothing was appended.`;
  return new SluiceError("fenced", detail, { session, ...facts });
}

export function keyTaken(session: string, key: string): SluiceError {
  const detail = `The idempotency key ${key} was used in session ${session} already. Nothing was appended; use a new key for a new request.`;
  return new SluiceError("idempotency_conflict", detail, { session, key });
}

export function cursorGone(
  session: string,
  after: number,
  { floor, head }: { floor: number; head: number },
): SluiceError {
  const oldest = floor + 1;
  const why =
    after > head
      ? `The log of session ${session} ends at ${head}; the cursor ${after} is ahead of it.`
      : `The events of session ${session} before ${oldest} were trimmed away; the cursor ${after} lies there.`;
  const detail = `${why} Read again with a cursor from ${floor} to ${head}.`;
  return new SluiceError("cursor_gone", detail, { session, oldest, head });
}

export function invalidCursor(after: number): SluiceError {
  const detail = `A cursor is a whole number from 0; this one is ${after}.`;
  return new SluiceError("invalid_cursor", detail, { after });
}

export function logClosed(): SluiceError {
  const detail = "The log is closed: its process is shutting down. Try again when it is back.";
  return new SluiceError("draining", detail);
}

export function outOfStep(session: string, facts: { head: number; after: number | undefined }): SluiceError {
  const detail = `The log of session ${session} ends at ${facts.head}, but the batch was to follow ${facts.after}. Nothing was appended; open the session again.`;
  return new SluiceError("fenced", detail, { session, ...facts });
}
