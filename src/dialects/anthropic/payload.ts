/** A client's own events, as they are kept beside what they mean: as they were sent, unknown keys included. */
export interface SentPayload {
  readonly type: string;
  readonly [field: string]: unknown;
}

/** One input is one event, or one and the system message behind it. */
export function toSentEvents(payload: unknown): readonly SentPayload[] {
  return (Array.isArray(payload) ? payload : [payload]).filter(isSent);
}

function isSent(value: unknown): value is SentPayload {
  return typeof value === "object" && value !== null && typeof (value as SentPayload).type === "string";
}
