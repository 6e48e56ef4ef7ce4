import type { EventOf, SluiceEvent } from "../../contract/index.ts";
import {
  writeError,
  writePermission,
  writePermissionAnswer,
  writePlan,
  writeQuestion,
  writeQuestionAnswer,
  writeRetry,
  writeSessionEnd,
  writeToolAnswer,
  writeToolRequest,
  writeTurnEnd,
  writeUnread,
} from "./blocks.ts";
import { endItem, growItem, startItem } from "./items.ts";
import { Pen, toOneLine } from "./pen.ts";
import { initialTranscript, type TranscriptState } from "./state.ts";

/** The limit of notes about unreadable lines in a turn. */
const UNREAD_SHOWN = 5;

/** One event as text for people. Pure: the same events give the same text, live or replayed. */
export function renderEvent(
  state: TranscriptState,
  event: SluiceEvent,
): { state: TranscriptState; text: string } {
  const pen = new Pen(state.page, state.cursor);
  const next = write(state, event, pen);
  return { state: { ...next, cursor: pen.cursor }, text: pen.text };
}

function write(state: TranscriptState, event: SluiceEvent, pen: Pen): TranscriptState {
  if (event.type === "item.started") return startItem(state, event);
  if (event.type === "item.delta") return growItem(state, event, pen);
  if (event.type === "item.completed") return endItem(state, event, pen);
  if (event.type === "turn.started") return { ...state, turnStarted: event.time };
  const unread = state.unread + (event.type === "agent.unparsed" ? 1 : 0);
  if (event.type === "agent.unparsed" && unread > UNREAD_SHOWN) return { ...state, unread };
  if (event.type === "turn.ended") return endTurn(state, event, pen);
  if (!writeBlock(state, event, pen)) return state;
  const plan = event.type === "plan.updated" ? event.data.entries : state.plan;
  // A request belongs to its call's block, so the result needs no second header.
  const last = /^(permission|tool)\./.test(event.type) ? state.last : event.type;
  return { ...state, last, plan, unread, shadowed: shadowsOf(state, event) };
}

function endTurn(state: TranscriptState, event: EventOf<"turn.ended">, pen: Pen): TranscriptState {
  if (state.unread > UNREAD_SHOWN) writeUnread(pen, state.unread - UNREAD_SHOWN, event.session_id);
  writeTurnEnd(pen, event, state.turnStarted);
  return { ...initialTranscript(state.page), plan: state.plan };
}

/** Prints the event; returns false for an event that is not shown. */
function writeBlock(state: TranscriptState, event: SluiceEvent, pen: Pen): boolean {
  if (event.type === "turn.retrying") writeRetry(pen, event.data);
  else if (event.type === "permission.requested") writePermission(pen, event.data);
  else if (event.type === "permission.resolved") writePermissionAnswer(pen, event.data);
  else if (event.type === "question.requested") writeQuestion(pen, event.data);
  else if (event.type === "question.resolved") writeQuestionAnswer(pen, event.data);
  else if (event.type === "tool.requested") writeToolRequest(pen, event.data);
  else if (event.type === "tool.resolved") writeToolAnswer(pen, event.data);
  else if (event.type === "plan.updated") writePlan(pen, event.data.entries, state.plan);
  else if (event.type === "error" && !isRetried(event.data.details)) writeError(pen, event.data);
  else if (event.type === "session.ended") writeSessionEnd(pen, event.data);
  else return writeNote(event, pen);
  return true;
}

/** Prints a minor event as one dim line. */
function writeNote(event: SluiceEvent, pen: Pen): boolean {
  const note = toNote(event);
  if (note === undefined) return false;
  pen.line(pen.paint.dim(`· ${toOneLine(note, Math.min(pen.width, 400) - 2)}`));
  return true;
}

function toNote(event: SluiceEvent): string | undefined {
  if (event.type === "context.compacted") return "the conversation was compacted";
  if (event.type === "agent.unparsed")
    return `a line that could not be read, at ${event.data.location}: ${event.data.error}`;
  if (event.type === "sandbox.ready") {
    const { provider, isolated, message } = event.data;
    const words = message === undefined ? "" : ` (${message})`;
    return `${provider} sandbox${isolated === false ? ", not isolated" : ""}${words}`;
  }
  if (event.type === "sandbox.error") return `the sandbox failed: ${event.data.message ?? "no reason given"}`;
  if (event.type === "process.started" && event.data.resumed)
    return `${event.data.harness} continues ${event.data.resumed}`;
  if (event.type === "session.deleted") return "the session was deleted";
  if (event.type === "custom") return `${event.data.name}  ${JSON.stringify(event.data.value) ?? ""}`;
  return undefined;
}

/** Whether a `turn.retrying` event has the same error. */
function isRetried(details: unknown): boolean {
  return (
    typeof details === "object" && details !== null && "retrying" in details && details.retrying === true
  );
}

function shadowsOf(state: TranscriptState, event: SluiceEvent): readonly string[] {
  if (event.type === "plan.updated") return [...state.shadowed, "plan"];
  if (event.type === "context.compacted") return [...state.shadowed, "compacted", "context compacted"];
  return state.shadowed;
}
