import type { SluiceEvent } from "../contract/index.ts";
import {
  writePermission,
  writePermissionAnswer,
  writePlan,
  writeQuestion,
  writeQuestionAnswer,
  writeToolAnswer,
  writeToolRequest,
} from "./transcript/asks.ts";
import { toOneLine } from "./transcript/clean.ts";
import { writeError, writeRetry, writeSessionEnd, writeTurnEnd } from "./transcript/endings.ts";
import { endItem, growItem, startItem } from "./transcript/items.ts";
import { Pen } from "./transcript/pen.ts";
import type { TranscriptState } from "./transcript/state.ts";

/** One event of a session as a person reads it. Pure: the same events give the same text, live or replayed. */
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
  if (!writeBlock(state, event, pen)) return state;
  if (event.type === "turn.ended")
    return { ...state, owner: undefined, items: {}, calls: {}, turnStarted: undefined, shadowed: [] };
  const plan = event.type === "plan.updated" ? event.data.entries : state.plan;
  // What asks about a call stands inside of its block: the result that follows needs no second header.
  const owner = /^(permission|tool)\./.test(event.type) ? state.owner : event.type;
  return { ...state, owner, plan, shadowed: shadowsOf(state, event) };
}

/** Whether the event shows at all. */
function writeBlock(state: TranscriptState, event: SluiceEvent, pen: Pen): boolean {
  if (event.type === "turn.ended") writeTurnEnd(pen, event, state.turnStarted);
  else if (event.type === "turn.retrying") writeRetry(pen, event.data);
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

/** What a reader wants to know of in passing, one dim line each. */
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
  if (event.type === "sandbox.ready")
    return `${event.data.provider} sandbox${event.data.isolated === false ? ", not isolated" : ""}`;
  if (event.type === "sandbox.error") return `the sandbox failed: ${event.data.message ?? "no reason given"}`;
  if (event.type === "process.started" && event.data.resumed)
    return `${event.data.harness} goes on with ${event.data.resumed}`;
  if (event.type === "session.deleted") return "the session was deleted";
  if (event.type === "custom") return `${event.data.name}  ${JSON.stringify(event.data.value) ?? ""}`;
  return undefined;
}

/** The retry that follows says the same. */
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
