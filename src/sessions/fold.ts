import type {
  ContentPart,
  EventData,
  EventDraft,
  EventError,
  Item,
  PendingAction,
  SessionSpec,
  SessionStatus,
  TurnOptions,
  Usage,
} from "../contract/index.ts";
import { bridgedToolName } from "../contract/toolNames.ts";
import type { HarnessCommand } from "../harness/port.ts";
import { fromResponse } from "./answers.ts";
import { isBridgedRequest, isSameInput } from "./bridged.ts";
import { addUsage } from "./usage.ts";

/**
 * All that the engine knows of a session, folded from its log and from nothing else.
 * Plain JSON, applied in place by its one owner: a flood of deltas must not copy it.
 */
export interface SessionFold {
  head: number;
  started: boolean;
  ended: EventData<"session.ended"> | null;
  /** Why the session has to end as soon as its process is down: a failure that no retry can heal. */
  mustEnd: string | null;
  nativeSessionId: string | null;
  changes: {
    title?: string | null;
    model?: string | null;
    variant?: string | null;
    metadata?: unknown;
    settings?: Partial<SessionSpec>;
  };
  inbox: QueuedInput[];
  turn: TurnFold | null;
  /** Open outside of any turn, where an agent speaks unasked. */
  open: Record<string, OpenItem>;
  usage: Usage;
  /** How many harness processes there were, and whether the last one is still open. */
  processes: number;
  processOpen: boolean;
  /** The native session that the last process was started to continue. */
  resumed?: string;
  sandbox: { id: string; provider: string } | null;
  paused: boolean;
  /** The checkpoint that the files were last kept as or brought back to: the next one's parent. */
  checkpoint: string | null;
  /** The command that runs in the sandbox beside the agent. */
  command?: OpenCommand;
  /** How much of the process's stderr was told, where it is told. */
  echoed?: number;
  /** The latest answers, so that a second one can be told who won. */
  answered: { id: string; answer: string; by?: string }[];
}

export interface OpenCommand {
  id: string;
  startedAt: number;
  timeoutMs?: number;
  /** How many bytes of each stream are in the log. */
  told: { stdout: number; stderr: number };
}

export interface QueuedInput {
  inputId: string;
  turnId: string;
  content: ContentPart[];
  /** Where it was accepted, and the client's own words, where its dialect echoes them. */
  sequence?: number;
  payload?: unknown;
  options?: TurnOptions;
}

export interface TurnFold {
  id: string;
  options?: TurnOptions;
  inputIds: string[];
  open: Record<string, OpenItem>;
  /** Calls whose result has not come back, by call id: the tool_call item, and the sub-agent's that made it. */
  calls: Record<string, OpenCall>;
  /** Model requests without their end. */
  models: string[];
  pending: Pending[];
  /** The requests that the last `turn.waiting` named; empty while the turn goes on. */
  waitingFor: string[];
  /** `due` is null where the CLI retries by itself. */
  retry: { attempt: number; due: number | null; error?: EventError } | null;
  attempts: number;
  interrupt: { at: number; by?: string } | null;
  usage: Usage;
  /** Milliseconds that the turn was not waiting for anybody, and since when it has not been. */
  clock: { spent: number; since: number | null };
  /** What the harness must have been told by now; each is sent once, by its id. */
  outbox: { id: string; command: HarnessCommand }[];
}

export interface OpenCall {
  itemId: string;
  parentId?: string;
  /** A call of one of the application's tools that no request is known of yet. */
  bridged?: { name: string; arguments: string };
}

export interface OpenItem {
  item: Item;
  text: string;
}

export interface Pending extends PendingAction {
  metadata?: unknown;
  callId?: string;
  /** The item of the sub-agent that asks. */
  parentId?: string;
}

const ANSWERS_KEPT = 256;

export function emptyFold(): SessionFold {
  return {
    head: 0,
    started: false,
    ended: null,
    mustEnd: null,
    nativeSessionId: null,
    changes: {},
    inbox: [],
    turn: null,
    open: {},
    usage: {},
    processes: 0,
    processOpen: false,
    sandbox: null,
    paused: false,
    checkpoint: null,
    answered: [],
  };
}

export function statusOf(fold: SessionFold): SessionStatus {
  if (fold.ended) return "ended";
  if (!fold.turn) return "idle";
  if (fold.turn.retry) return "retrying";
  return fold.turn.waitingFor.length > 0 ? "waiting" : "running";
}

/** Whether a crash now would leave something to pick up. */
export function isActive(fold: SessionFold): boolean {
  if (fold.processOpen || fold.turn || fold.command) return true;
  return !fold.ended && fold.inbox.length > 0;
}

/** Applies one event at its sequence and time. Deterministic: the log and a live session fold alike. */
export function applyEvent(fold: SessionFold, event: EventDraft, sequence: number, time: number): void {
  if (event.type === "item.delta") return applyDelta(fold, event.data);
  fold.head = sequence;
  if (event.native_session_id !== undefined) fold.nativeSessionId = event.native_session_id;
  switch (event.type) {
    case "item.started":
      return applyItemStarted(fold, event.data.item, event.source === "agent");
    case "item.completed":
      return applyItemCompleted(fold, event.data.item, event.parent_id);
    case "session.started":
      fold.started = true;
      return;
    case "session.ended":
      fold.ended = event.data;
      return;
    case "session.updated": {
      const { title, model, variant, metadata, settings, native_session_id: native } = event.data;
      if (title !== undefined) fold.changes.title = title;
      if (model !== undefined) fold.changes.model = model;
      if (variant !== undefined) fold.changes.variant = variant;
      if (metadata !== undefined) fold.changes.metadata = metadata;
      if (settings !== undefined)
        fold.changes.settings = { ...fold.changes.settings, ...(settings as object) };
      if (native !== undefined) fold.nativeSessionId = native;
      return;
    }
    case "sandbox.boot":
    case "sandbox.connected":
      fold.sandbox = { id: event.data.sandbox_id, provider: event.data.provider };
      return;
    case "sandbox.killed":
    case "sandbox.error":
      fold.sandbox = null;
      fold.paused = false;
      return;
    case "sandbox.paused":
      fold.paused = true;
      if (fold.turn) stopClock(fold.turn, time);
      return;
    case "sandbox.resumed":
      fold.paused = false;
      if (fold.turn && fold.turn.waitingFor.length === 0) fold.turn.clock.since ??= time;
      return;
    case "checkpoint.created":
    case "checkpoint.restored":
      fold.checkpoint = event.data.checkpoint_id;
      return;
    case "process.started":
      fold.processes = event.data.process;
      fold.processOpen = true;
      delete fold.echoed;
      if (event.data.resumed === undefined) delete fold.resumed;
      else fold.resumed = event.data.resumed;
      return;
    case "process.ended":
      fold.processOpen = false;
      return;
    case "process.output":
      if (event.data.stream === "stderr") fold.echoed = event.data.offset;
      return;
    case "command.started": {
      const { command_id: id, timeout_ms: timeoutMs } = event.data;
      const told = { stdout: 0, stderr: 0 };
      fold.command = { id, startedAt: time, told, ...(timeoutMs === undefined ? {} : { timeoutMs }) };
      return;
    }
    case "command.output":
      if (fold.command) fold.command.told[event.data.stream] = event.data.offset;
      return;
    case "command.ended":
      delete fold.command;
      return;
    case "input.accepted": {
      const { input_id: inputId, turn_id: turnId, content, payload, options } = event.data;
      // An input that names the running turn goes into it; every other waits for its own.
      if (fold.turn?.id === turnId) return steer(fold.turn, inputId, content);
      fold.inbox.push({
        inputId,
        turnId,
        content,
        ...(payload === undefined ? {} : { sequence, payload }),
        ...(options === undefined ? {} : { options }),
      });
      return;
    }
    case "turn.started":
      return applyTurnStarted(fold, event.data, time);
    case "turn.ended":
      fold.turn = null;
      if (event.data.stop_reason === "model_error")
        fold.mustEnd = event.data.error?.message ?? "the model failed";
      return;
    case "model.ended":
      if (event.data.usage) {
        addUsage(fold.usage, event.data.usage);
        if (fold.turn) addUsage(fold.turn.usage, event.data.usage);
      }
      if (fold.turn) fold.turn.models = fold.turn.models.filter((id) => id !== event.data.request_id);
      return;
    default:
      if (fold.turn) applyToTurn(fold, fold.turn, event, sequence, time);
  }
}

/** A delta changes nothing but its item's text; there may be a hundred thousand of them in a second. */
export function applyDelta(fold: SessionFold, { item_id: id, delta }: EventData<"item.delta">): void {
  fold.head += 1;
  const open = fold.turn?.open[id] ?? fold.open[id];
  if (open) open.text += delta;
}

function applyItemStarted(fold: SessionFold, item: Item, byAgent: boolean): void {
  const { turn } = fold;
  (turn?.open ?? fold.open)[item.item_id] = { item, text: "" };
  // Words from the agent mean that the model answers again.
  if (turn && byAgent) turn.attempts = 0;
}

function applyItemCompleted(fold: SessionFold, item: Item, parentId: string | undefined): void {
  const { turn } = fold;
  delete fold.open[item.item_id];
  if (!turn) return;
  delete turn.open[item.item_id];
  for (const part of item.content) {
    if (part.type === "tool_call" && item.kind === "tool_call") {
      const call: OpenCall = { itemId: item.item_id, ...(parentId === undefined ? {} : { parentId }) };
      turn.calls[part.call_id] = call;
      const name = bridgedToolName(part.name);
      if (name !== undefined)
        joinRequest(turn, part.call_id, { ...call, bridged: { name, arguments: part.arguments } });
    }
    if (part.type === "tool_result") delete turn.calls[part.call_id];
  }
}

/** A request that came before the call that it comes from belongs to it all the same. */
function joinRequest(
  turn: TurnFold,
  callId: string,
  call: Required<Pick<OpenCall, "bridged">> & OpenCall,
): void {
  const { name, arguments: text } = call.bridged;
  const early = turn.pending.find(
    (pending) =>
      isBridgedRequest(pending.id) &&
      pending.callId === undefined &&
      pending.prompt === name &&
      isSameInput(text, pending.input),
  );
  if (!early) turn.calls[callId] = call;
  else early.callId = callId;
}

function applyTurnStarted(fold: SessionFold, data: EventData<"turn.started">, time: number): void {
  const inputs = fold.inbox.filter((input) => data.input_ids.includes(input.inputId));
  fold.inbox = fold.inbox.filter((input) => !data.input_ids.includes(input.inputId));
  fold.turn = {
    id: data.turn_id,
    ...(data.options === undefined ? {} : { options: data.options }),
    inputIds: data.input_ids,
    open: {},
    calls: {},
    models: [],
    pending: [],
    waitingFor: [],
    retry: null,
    attempts: 0,
    interrupt: null,
    usage: {},
    clock: { spent: 0, since: time },
    outbox: inputs.map(({ inputId, content }) => ({
      id: `prompt:${inputId}`,
      command: { type: "prompt", inputId, content },
    })),
  };
}

function applyToTurn(
  fold: SessionFold,
  turn: TurnFold,
  event: EventDraft,
  sequence: number,
  time: number,
): void {
  switch (event.type) {
    case "turn.waiting":
      turn.waitingFor = event.data.actions.map((action) => action.id);
      return stopClock(turn, time);
    case "turn.retrying":
      turn.attempts = event.data.attempt;
      turn.retry = {
        attempt: event.data.attempt,
        due: event.source === "daemon" ? time + event.data.delay_ms : null,
        error: event.data.error,
      };
      return;
    case "turn.resumed":
      if (typeof turn.retry?.due === "number") {
        // Not by the attempt: the budget starts anew when the agent speaks again.
        turn.outbox.push({ id: `retry:${turn.id}:${sequence}`, command: { type: "retry" } });
      }
      turn.retry = null;
      turn.waitingFor = [];
      if (!fold.paused) turn.clock.since ??= time;
      return;
    case "interrupt.requested":
      turn.interrupt = event.data.by === undefined ? { at: time } : { at: time, by: event.data.by };
      turn.outbox.push({ id: `interrupt:${turn.id}`, command: { type: "interrupt" } });
      return;
    case "model.started":
      turn.models.push(event.data.request_id);
      return;
    case "permission.requested": {
      const { permission_id: id, action: prompt, metadata } = event.data;
      const callId = readCallId(metadata);
      const pending: Pending = { kind: "permission", id, turnId: turn.id, sequence, prompt };
      if (metadata !== undefined) {
        pending.metadata = metadata;
        pending.input = metadata;
      }
      return ask(turn, pending, callId, event.parent_id);
    }
    case "question.requested": {
      const { question_id: id, prompt, options } = event.data;
      const pending: Pending = { kind: "question", id, turnId: turn.id, sequence, prompt, options };
      return ask(turn, pending, undefined, event.parent_id);
    }
    case "tool.requested": {
      const { request_id: id, name, input, call_id: callId } = event.data;
      const pending: Pending = { kind: "tool", id, turnId: turn.id, sequence, prompt: name, input };
      if (callId !== undefined) delete turn.calls[callId]?.bridged;
      return ask(turn, pending, callId, event.parent_id);
    }
    case "permission.resolved": {
      const reply = readReply(event.data.metadata);
      return answer(fold, turn, event.data.permission_id, event.data.status, reply.by, {
        type: "permission",
        id: event.data.permission_id,
        reply: event.data.status === "denied" ? "reject" : (reply.reply ?? "once"),
        ...(reply.message === undefined ? {} : { message: reply.message }),
      });
    }
    case "question.resolved": {
      const { question_id: id, status, response } = event.data;
      const answers = status === "answered" ? fromResponse(response ?? "") : undefined;
      return answer(fold, turn, id, response ?? status, undefined, {
        type: "question",
        id,
        ...(answers === undefined ? {} : { answers }),
      });
    }
    case "tool.resolved": {
      const { request_id: id, status, content, by } = event.data;
      return answer(fold, turn, id, status, by, {
        type: "tool",
        id,
        content,
        isError: status !== "completed",
      });
    }
    default:
  }
}

function steer(turn: TurnFold, inputId: string, content: ContentPart[]): void {
  turn.inputIds.push(inputId);
  turn.outbox.push({ id: `prompt:${inputId}`, command: { type: "steer", inputId, content } });
}

/** Time in which nobody works does not count against the turn's limit. */
function stopClock(turn: TurnFold, time: number): void {
  const { spent, since } = turn.clock;
  if (since !== null) turn.clock = { spent: spent + time - since, since: null };
}

function ask(
  turn: TurnFold,
  pending: Pending,
  callId: string | undefined,
  parentId: string | undefined,
): void {
  if (callId !== undefined) pending.callId = callId;
  if (parentId !== undefined) pending.parentId = parentId;
  turn.pending.push(pending);
}

function answer(
  fold: SessionFold,
  turn: TurnFold,
  id: string,
  text: string,
  by: string | undefined,
  command: HarnessCommand,
): void {
  turn.pending = turn.pending.filter((pending) => pending.id !== id);
  turn.outbox.push({ id: `answer:${id}`, command });
  fold.answered.push(by === undefined ? { id, answer: text } : { id, answer: text, by });
  if (fold.answered.length > ANSWERS_KEPT) fold.answered.shift();
}

function readCallId(metadata: unknown): string | undefined {
  if (typeof metadata !== "object" || metadata === null || !("call_id" in metadata)) return undefined;
  return typeof metadata.call_id === "string" ? metadata.call_id : undefined;
}

function readReply(metadata: unknown): { reply?: "once" | "always"; by?: string; message?: string } {
  if (typeof metadata !== "object" || metadata === null) return {};
  const { reply, by, message } = metadata as Record<string, unknown>;
  return {
    ...(reply === "once" || reply === "always" ? { reply } : {}),
    ...(typeof by === "string" ? { by } : {}),
    ...(typeof message === "string" ? { message } : {}),
  };
}
