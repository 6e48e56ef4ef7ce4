import type { EventData, EventOf, EventType, Item, PlanEntry, SluiceEvent } from "../../contract/index.ts";
import type { Dialect, Frame, Projected } from "../port.ts";
import { NO_FRAMES } from "../shared/projection.ts";
import { toText } from "../shared/text.ts";
import type { LogLine } from "./line.ts";
import { NdjsonProjection, type NdjsonState, type NdjsonView, NO_TURN, type OpenTurn } from "./projection.ts";
import { endSteps, projectCall, projectResult, projectToolAnswer, projectToolRequest } from "./steps.ts";
import { DONE } from "./to-sse.ts";

/** The log as NDJSON lines. All lines of a turn come from the events between `turn.started` and `turn.ended`. */
export const ndjson: Dialect<NdjsonState, NdjsonView> = {
  id: "ndjson",
  memory: "turn",
  initial: (view) => ({ view, ...NO_TURN }),
  project(state, stored) {
    // Most events are deltas; this dialect shows whole texts.
    if (UNSHOWN.has(stored.type)) return { state, frames: NO_FRAMES };
    const event = JSON.parse(stored.body) as SluiceEvent;
    if (event.type === "session.deleted") return { state, frames: NO_FRAMES, last: true };
    if (event.turn_id === undefined) return { state: hold(state, event), frames: NO_FRAMES };
    if (state.view.turn !== undefined && state.view.turn !== event.turn_id)
      return { state: state.held.length === 0 ? state : { ...state, held: [] }, frames: NO_FRAMES };
    if (event.type === "input.withdrawn") return projectWithdrawn(state, event);
    return projectTurn(state, event, event.turn_id);
  },
};

const UNSHOWN: ReadonlySet<EventType> = new Set<EventType>([
  "item.delta",
  "input.accepted",
  "input.replaced",
  "input.reordered",
]);

/** A withdrawn input ends as an interrupted turn does. Another turn may run meanwhile, and keeps its state. */
function projectWithdrawn(state: NdjsonState, event: EventOf<"input.withdrawn">): Projected<NdjsonState> {
  const { turn_id: id } = event.data;
  const projection = new NdjsonProjection(state, { id, steps: {}, text: null }, event);
  const ended = { turn_id: id, status: "interrupted", stop_reason: "interrupted" } as const;
  projectEnd(projection, { data: ended });
  const frames = numbered(state.view, event.sequence, projection.frames);
  return { state, frames, last: state.view.turn === id };
}

/** Keeps the log line of an event between turns; the next turn shows it. */
function hold(state: NdjsonState, event: SluiceEvent): NdjsonState {
  const log = state.view.form === "sse" ? undefined : toLog(event);
  if (!log) return state;
  const line = JSON.stringify({ type: "log", ...log, ts: Date.parse(event.time) });
  return { ...state, held: [...state.held, line] };
}

function projectTurn(state: NdjsonState, event: SluiceEvent, turnId: string): Projected<NdjsonState> {
  const held = state.held.map((data): Frame => ({ event: "log", data }));
  const turn: OpenTurn = state.turn?.id === turnId ? state.turn : { id: turnId, steps: {}, text: null };
  const projection = new NdjsonProjection(state, turn, event);
  projectEvent(projection, event);
  const frames = numbered(state.view, event.sequence, [...held, ...projection.frames]);
  const isOver = event.type === "turn.ended";
  return {
    state: { view: state.view, held: [], turn: isOver ? null : projection.turn },
    frames,
    last: isOver && state.view.turn === turnId,
  };
}

function projectEvent(projection: NdjsonProjection, event: SluiceEvent): void {
  switch (event.type) {
    case "item.completed":
      return projectItem(projection, event.data.item, event.parent_id);
    case "tool.requested":
      return projectToolRequest(projection, event);
    case "tool.resolved":
      return projectToolAnswer(projection, event);
    case "turn.ended":
      return projectEnd(projection, event);
    default: {
      const log = toLog(event);
      if (log) projection.log(log.level, log.message);
    }
  }
}

function projectItem(projection: NdjsonProjection, item: Item, parent: string | undefined): void {
  if (item.kind === "tool_call") return projectCall(projection, item);
  if (item.kind === "tool_result") return projectResult(projection, item);
  if (item.kind !== "message" || item.role !== "assistant") return;
  const thought = item.content.find((part) => part.type === "reasoning");
  if (thought) return thought.visibility === "public" ? projection.log("debug", thought.text) : undefined;
  const text = toText(item.content);
  if (text === "") return;
  // A sub-agent's message and an incomplete message are never the turn's result.
  if (parent !== undefined || item.status === "failed") return projection.log("debug", text);
  if (projection.turn.text !== null) projection.log("debug", projection.turn.text);
  projection.change({ text });
}

function projectEnd(projection: NdjsonProjection, { data }: Pick<EventOf<"turn.ended">, "data">): void {
  endSteps(projection);
  const { ts } = projection;
  const { text } = projection.turn;
  if (hasResult(data, text ?? undefined)) {
    projection.emit({ type: "result", message: text ?? "", ts });
  } else {
    if (text !== null) projection.log("debug", text);
    projection.emit({ type: "error", ...toError(data), ts });
  }
  if (projection.isSse) projection.frames.push({ event: "done", data: DONE });
}

/** Numbers the frames of event N as `N.1`, `N.2` and, for the last, `N`: a reader can resume after any of them. */
function numbered({ form, seen }: NdjsonView, sequence: number, frames: readonly Frame[]): readonly Frame[] {
  if (form !== "sse") return frames;
  const named = frames.map((frame, index) =>
    index === frames.length - 1 ? frame : { ...frame, id: `${sequence}.${index + 1}` },
  );
  return seen?.sequence === sequence ? named.slice(seen.frames) : named;
}

type Ended = EventData<"turn.ended">;

/**
 * Whether a turn ends with a result. A turn that ends before any text by a refusal or a limit of its model ends with an
 * error.
 */
export function hasResult({ status, stop_reason }: Ended, text: string | undefined): boolean {
  return status === "completed" && (stop_reason === "end_turn" || text !== undefined);
}

function toError({ status, stop_reason, error, details }: Ended): { code: string; message: string } {
  if (status === "interrupted") {
    const what = stop_reason === "terminated" ? "The session was terminated." : "The run was cancelled.";
    return { code: "cancelled", message: what };
  }
  const { reason } = (details ?? {}) as { reason?: unknown };
  const known = error?.message ?? (typeof reason === "string" && reason !== "" ? reason : undefined);
  return { code: error?.code ?? stop_reason, message: known ?? `The run failed: ${stop_reason}.` };
}

type Log = Pick<LogLine, "level" | "message">;

/** An event as a log line; undefined for events that other lines show and for unimportant ones. */
function toLog(event: SluiceEvent): Log | undefined {
  switch (event.type) {
    case "sandbox.boot":
    case "sandbox.ready":
    case "sandbox.connected":
    case "sandbox.moving":
    case "sandbox.paused":
    case "sandbox.resumed":
    case "sandbox.killed":
    case "sandbox.error":
      return sandboxLog(event.type, event.data);
    case "process.started": {
      const { harness, resumed } = event.data;
      return info(resumed === undefined ? `${harness} started` : `${harness} started, resuming ${resumed}`);
    }
    case "process.ended":
      return processLog(event.data);
    case "turn.waiting":
      return warn(`waiting for an answer to ${event.data.actions.map(({ kind }) => kind).join(", ")}`);
    case "turn.resumed":
      return info(event.data.reason === "retry" ? "trying again" : "answered, going on");
    case "turn.retrying": {
      const { attempt, delay_ms, error } = event.data;
      return warn(`try ${attempt} failed (${error.code}: ${error.message}); the next one in ${delay_ms} ms`);
    }
    case "interrupt.requested":
      return info(event.data.by === undefined ? "asked to stop" : `asked to stop by ${event.data.by}`);
    case "plan.updated":
      return info(`plan: ${event.data.entries.map(toEntry).join("; ")}`);
    case "context.compacted":
      return info(`the context was compacted${event.data.summary ? `: ${event.data.summary}` : ""}`);
    case "agent.unparsed":
      return warn(`a line of the agent was not understood (${event.data.location}): ${event.data.error}`);
    case "error":
      return errorLog(event.data);
    default:
      return undefined;
  }
}

function sandboxLog(type: string, { provider, sandbox_id, message }: EventOf<"sandbox.ready">["data"]): Log {
  const text = `sandbox ${type.slice("sandbox.".length)}: ${provider} ${sandbox_id}`;
  const level = type === "sandbox.error" ? "error" : "info";
  return { level, message: message === undefined ? text : `${text}: ${message}` };
}

function processLog({ exit_code, signal, reason, stderr }: EventOf<"process.ended">["data"]): Log {
  const how = signal ?? (exit_code === undefined ? reason : `exit code ${exit_code}`);
  const last = stderr?.tail ?? stderr?.head;
  const level = reason === "lost" || (reason === "exited" && exit_code !== 0) ? "warn" : "info";
  return { level, message: `the agent's process ended: ${how}${last ? `\n${last}` : ""}` };
}

/** Undefined for the error of a retry: `turn.retrying` has a log line of its own. */
function errorLog({ code, message, details }: EventOf<"error">["data"]): Log | undefined {
  if ((details as { retrying?: unknown } | undefined)?.retrying !== undefined) return undefined;
  return { level: "error", message: code === undefined ? message : `${code}: ${message}` };
}

const PLAN_MARKS = { completed: "x", in_progress: ">", pending: " " } as const;

function toEntry({ content, status }: PlanEntry): string {
  return `[${PLAN_MARKS[status]}] ${content}`;
}

const info = (message: string): Log => ({ level: "info", message });
const warn = (message: string): Log => ({ level: "warn", message });
