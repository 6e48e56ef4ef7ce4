import { type EventData, type EventError, parseOthersJson } from "../../contract/index.ts";
import { codeOfStatus, isTransient, stopReasonOf } from "../failure.ts";
import { isRecord, toFields } from "../fields.ts";
import {
  type Message,
  type NativeError,
  type NativeEvent,
  NO_WORK,
  type OpencodeReading,
  type Properties,
  type Turn,
} from "./state.ts";

/** The status of a session: busy, retrying or idle. */
export function readStatus(reading: OpencodeReading, event: NativeEvent): string | undefined {
  const { sessionID, status } = event.properties;
  if (!isRecord(status)) return "a status that says nothing";
  if (status["type"] === "idle") return readIdle(reading, sessionID);
  if (!reading.originOf(sessionID)) return undefined;
  if (status["type"] === "retry") return retry(reading, event, status);
  if (reading.isMain(sessionID)) reading.changeTurn({ isIdle: false });
  for (const [id, message] of openMessages(reading, sessionID)) {
    if (message.request !== "failed") continue;
    reading.scribe.startModel(id, { model: message.model, ...reading.originOf(sessionID) });
    reading.setMessage(id, { ...message, request: "open" });
  }
  return undefined;
}

/** The server retries the model without a limit. The model's texts come again. */
function retry(
  reading: OpencodeReading,
  event: NativeEvent,
  { attempt, message: words, next }: Properties,
): undefined {
  const { sessionID } = event.properties;
  const said = String(words ?? "the model failed");
  const error = { code: codeOfWords(said), message: plainWords(said), retryable: true };
  // Repeated texts come in parts with other ids.
  for (const part of Object.keys(reading.scribe.transcript.texts)) reading.markDone(part);
  reading.scribe.tear();
  for (const [id, open] of openMessages(reading, sessionID)) {
    reading.scribe.endModel(id, { error });
    reading.setMessage(id, { ...open, request: "failed" });
  }
  const data = {
    turn_id: "",
    attempt:
      typeof attempt === "number" && Number.isSafeInteger(Math.round(attempt)) ? Math.round(attempt) : 1,
    delay_ms: delayUntil(next, event.id),
    error,
  };
  reading.scribe.add({ type: "turn.retrying", data }, reading.originOf(sessionID));
}

const CLOCK = 2 ** 36;

/**
 * The delay until a retry. The present time is in the event's id, which begins with 48 bits in hexadecimal: the low 36
 * bits of the time in milliseconds, then a counter of 12 bits.
 */
function delayUntil(next: unknown, id: unknown): number {
  const digits = typeof id === "string" ? /^evt_([0-9a-f]{12})/.exec(id)?.[1] : undefined;
  if (typeof next !== "number" || digits === undefined) return 0;
  const now = Math.floor(Number.parseInt(digits, 16) / 4096);
  const delay = ((next % CLOCK) - now + CLOCK) % CLOCK;
  // The time has passed already.
  return delay > CLOCK / 2 ? 0 : delay;
}

/** Notes an error. It need not end the turn: a conversation that is too long is compacted and continues. */
export function noteFailure(reading: OpencodeReading, { sessionID, error }: Properties): undefined {
  const failure = toNativeError(error);
  const { turn, lastFailure } = reading.state;
  if (!failure || !turn || !(reading.isMain(sessionID) || sessionID === undefined)) return;
  if (turn.hasBegun) return reading.changeTurn({ failure });
  // The server repeats some errors, with their stack, after their turn.
  if (lastFailure !== undefined && failure.message.includes(lastFailure)) return;
  // The prompt became no message, so the session was never busy, and no idle event follows.
  failTurn(reading, failure);
}

/** Reports an error after which the session continues. */
export function recover(reading: OpencodeReading): void {
  const { turn } = reading.state;
  if (!turn?.failure) return;
  reportFailure(reading, turn.failure);
  const { failure: _, ...rest } = turn;
  reading.change({ turn: rest });
}

export function readIdle(reading: OpencodeReading, session: unknown): undefined {
  if (!reading.isMain(session)) return;
  reading.changeTurn({ isIdle: true });
  endIfIdle(reading);
}

/**
 * Ends the turn, once. The session reports idle twice after an error or an abort, the first time before its last
 * message is complete. An idle event that precedes the prompt's own message belongs to the previous turn.
 */
export function endIfIdle(reading: OpencodeReading): void {
  const { turn, session } = reading.state;
  if (!turn?.isIdle || turn.awaited > 0 || openMessages(reading, session).length > 0) return;
  endTurn(reading, outcomeOf(turn));
}

export function failTurn(reading: OpencodeReading, failure: NativeError): undefined {
  endTurn(reading, endingOf(failure));
}

function endTurn(reading: OpencodeReading, ending: Ending): void {
  const { error } = ending;
  if (error) reading.scribe.error(error);
  reading.scribe.endTurn(ending);
  const past = [...reading.state.past.slice(-PAST_KEPT), ...Object.keys(reading.work.messages)];
  reading.change({ past, work: NO_WORK, ...(error === undefined ? {} : { lastFailure: error.message }) });
  reading.change({ turn: undefined });
}

const PAST_KEPT = 16;

const INTERRUPTED: Ending = { status: "interrupted", stop_reason: "interrupted" };

function outcomeOf({ failure, isInterrupted, finish }: Turn): Ending {
  if (isInterrupted && (failure !== undefined || !isEnd(finish))) return INTERRUPTED;
  if (failure) return endingOf(failure);
  if (finish === "length") return { status: "completed", stop_reason: "max_tokens" };
  if (finish === "content-filter") return { status: "completed", stop_reason: "refusal" };
  return { status: "completed", stop_reason: "end_turn" };
}

function isEnd(finish: string | undefined): boolean {
  return finish !== undefined && finish !== "tool-calls";
}

function reportFailure(reading: OpencodeReading, failure: NativeError): void {
  reading.scribe.error(toEventError(failure));
}

function openMessages(reading: OpencodeReading, session: unknown): [string, Message][] {
  return Object.entries(reading.work.messages).filter(
    ([, message]) => message.session === session && !message.isComplete,
  );
}

export type Ending = Omit<EventData<"turn.ended">, "turn_id">;

/** OpenCode's error objects: `{name, data: {message, statusCode?, isRetryable?}}`. */
export function toNativeError(value: unknown): NativeError | undefined {
  if (!isRecord(value)) return undefined;
  const data = toFields(value["data"]);
  const { message, statusCode, isRetryable } = data;
  const name = typeof value["name"] === "string" ? value["name"] : "UnknownError";
  return {
    name,
    message: typeof message === "string" && message !== "" ? plainWords(message) : name,
    ...(typeof statusCode === "number" ? { status: statusCode } : {}),
    ...(typeof isRetryable === "boolean" ? { isRetryable } : {}),
  };
}

/** The message of a provider's error, which comes as JSON text. */
function plainWords(message: string): string {
  if (!message.startsWith("{")) return message;
  try {
    const { message: inner } = parseOthersJson(message) as { message?: unknown };
    return typeof inner === "string" && inner !== "" ? inner : message;
  } catch {
    return message;
  }
}

/** The turn's ending for an error of the server. */
export function endingOf(failure: NativeError): Ending {
  if (failure.name === "MessageAbortedError") return { status: "interrupted", stop_reason: "interrupted" };
  if (failure.name === "MessageOutputLengthError") return { status: "completed", stop_reason: "max_tokens" };
  if (failure.name === "ContentFilterError") {
    return { status: "completed", stop_reason: "refusal", details: { reason: failure.message } };
  }
  const error = toEventError(failure);
  return { status: "failed", stop_reason: stopReasonOf(error.code), error };
}

export function toEventError(failure: NativeError): EventError {
  const { message } = failure;
  const code = codeOf(failure);
  return isTransient(code) ? { code, message, retryable: true } : { code, message };
}

/** The code of a failure that is only a text. */
function codeOfWords(message: string): string {
  if (/\b429\b|rate.?limit|too many requests|quota/i.test(message)) return "rate_limited";
  if (/\b(529|503)\b|overload/i.test(message)) return "overloaded";
  if (/reset|ECONN|EPIPE|socket|network|timed? ?out|fetch failed|terminated|connect/i.test(message))
    return "network";
  return "server_error";
}

function codeOf({ name, message, status, isRetryable }: NativeError): string {
  if (name === "ContextOverflowError") return "context_length";
  if (name === "ProviderAuthError") return "unauthorized";
  if (name !== "APIError") return "internal";
  if (status !== undefined) return codeOfStatus(status);
  return isRetryable === true ? codeOfWords(message) : "internal";
}
