import { isRecord } from "../rpc.ts";
import type { NativeEvent, Properties } from "./events.ts";
import { codeOfWords, endingOf, plainWords, toEventError, toNativeError } from "./failure.ts";
import type { Page } from "./page.ts";
import { type Message, type NativeError, NO_WORK, type Turn } from "./state.ts";

/** Whether a session works, waits to try again, or is done. */
export function readStatus(page: Page, event: NativeEvent): string | undefined {
  const { sessionID, status } = event.properties;
  if (!isRecord(status)) return "a status that says nothing";
  if (status["type"] === "idle") return sessionIsIdle(page, sessionID);
  if (!page.placeOf(sessionID)) return undefined;
  if (status["type"] === "retry") return retry(page, event, status);
  if (page.isMain(sessionID)) page.setTurn({ isIdle: false });
  for (const [id, message] of openMessages(page, sessionID)) {
    if (message.request !== "failed") continue;
    page.scribe.startModel(id, { model: message.model, ...page.placeOf(sessionID) });
    page.setMessage(id, { ...message, request: "open" });
  }
  return undefined;
}

/** The server tries the model again by itself, for ever if it must. What it had said it says again. */
function retry(page: Page, event: NativeEvent, { attempt, message: words, next }: Properties): undefined {
  const { sessionID } = event.properties;
  const said = String(words ?? "the model failed");
  const error = { code: codeOfWords(said), message: plainWords(said), retryable: true };
  // What is said again comes in parts of other names.
  const done = Object.fromEntries(
    Object.keys(page.scribe.transcript.texts).map((part) => [part, true as const]),
  );
  page.setWork({ done: { ...page.work.done, ...done } });
  page.scribe.tear();
  for (const [id, open] of openMessages(page, sessionID)) {
    page.scribe.endModel(id, { error });
    page.setMessage(id, { ...open, request: "failed" });
  }
  const data = {
    turn_id: "",
    attempt:
      typeof attempt === "number" && Number.isSafeInteger(Math.round(attempt)) ? Math.round(attempt) : 1,
    delay_ms: delayUntil(next, event.id),
    error,
  };
  page.scribe.add({ type: "turn.retrying", data }, page.placeOf(sessionID));
}

const CLOCK = 2 ** 36;

/** An event's id begins with its time: 48 bits in hexadecimal, of which the last 12 only count. */
function delayUntil(next: unknown, id: unknown): number {
  const digits = typeof id === "string" ? /^evt_([0-9a-f]{12})/.exec(id)?.[1] : undefined;
  if (typeof next !== "number" || digits === undefined) return 0;
  const now = Math.floor(Number.parseInt(digits, 16) / 4096);
  const delay = ((next % CLOCK) - now + CLOCK) % CLOCK;
  // Of a moment that has passed.
  return delay > CLOCK / 2 ? 0 : delay;
}

/** An error may be the turn's end or not: a conversation that was too long is compacted, and goes on. */
export function noteFailure(page: Page, { sessionID, error }: Properties): undefined {
  const failure = toNativeError(error);
  const { turn, lastFailure } = page.state;
  if (!failure || !turn || !(page.isMain(sessionID) || sessionID === undefined)) return;
  if (turn.hasBegun) return page.setTurn({ failure });
  // Some errors are told once more, with their stack, when their turn is over.
  if (lastFailure !== undefined && failure.message.includes(lastFailure)) return;
  // A prompt that cannot even become a message makes nothing busy, so nothing becomes idle after it.
  failTurn(page, failure);
}

/** The session goes on after an error: that there was one is all that is left of it. */
export function recover(page: Page): void {
  const { turn } = page.state;
  if (!turn?.failure) return;
  tellFailure(page, turn.failure);
  const { failure: _, ...rest } = turn;
  page.set({ turn: rest });
}

export function sessionIsIdle(page: Page, session: unknown): undefined {
  if (!page.isMain(session)) return;
  page.setTurn({ isIdle: true });
  endIfIdle(page);
}

/**
 * One prompt, one end: after an error or an abort the session calls itself idle twice, and once before its last
 * message is complete; and an idle that comes before the prompt's own message is that of the prompt before.
 */
export function endIfIdle(page: Page): void {
  const { turn, session } = page.state;
  if (!turn?.isIdle || turn.awaited > 0 || openMessages(page, session).length > 0) return;
  endTurn(page, outcomeOf(turn));
}

export function failTurn(page: Page, failure: NativeError): undefined {
  endTurn(page, endingOf(failure));
}

type Ending = ReturnType<typeof endingOf>;

function endTurn(page: Page, ending: Ending): void {
  const { error } = ending;
  if (error) page.scribe.add({ type: "error", data: { code: error.code, message: error.message } });
  page.scribe.endTurn(ending);
  const past = [...page.state.past.slice(-PAST_KEPT), ...Object.keys(page.work.messages)];
  page.set({ past, work: NO_WORK, ...(error === undefined ? {} : { lastFailure: error.message }) });
  page.forget("turn");
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

function tellFailure(page: Page, failure: NativeError): void {
  const { code, message } = toEventError(failure);
  page.scribe.add({ type: "error", data: { code, message } });
}

function openMessages(page: Page, session: unknown): [string, Message][] {
  return Object.entries(page.work.messages).filter(
    ([, message]) => message.session === session && !message.isComplete,
  );
}
