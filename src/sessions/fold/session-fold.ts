import { defined, own, setOwn } from "../../contract/own-keys.ts";
import type {
  ContentPart,
  EventData,
  EventDraft,
  Item,
  SessionSpec,
  SessionStatus,
  TurnOptions,
  Usage,
} from "../../contract/index.ts";
import { fromToolServerName } from "../../contract/tool-names.ts";
import {
  applyToTurn,
  startTurnFold,
  steer,
  type GivenAnswer,
  type OpenCall,
  type OpenItem,
  type TurnFold,
} from "./turn-fold.ts";
import { joinRequest } from "../actions/tool-requests.ts";
import { continueClock, stopClock } from "../turn/time-limit.ts";

/**
 * The engine's state of a session, folded from its log and from nothing else. Plain JSON, changed in place by its one
 * writer: a flood of deltas must not copy it.
 */
export interface SessionFold {
  head: number;
  started: boolean;
  ended: EventData<"session.ended"> | null;
  /** `session.deleted` is in the log. */
  deleted?: true;
  /** The failure for which the session has to end after its process; no retry can help. */
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
  /** Items that an agent opened outside of any turn. */
  open: Record<string, OpenItem>;
  usage: Usage;
  /** The number of harness processes so far, and whether the last one is open. */
  processes: number;
  processOpen: boolean;
  /** The native session that the last process resumed. */
  resumed?: string;
  sandbox: { id: string; provider: string } | null;
  paused: boolean;
  /** The last checkpoint that was made or restored: the parent of the next one. */
  checkpoint: string | null;
  /** The client's command that runs in the sandbox. */
  command?: OpenCommand;
  /** The bytes of the process's stderr that are in the log. */
  echoed?: number;
  /** The latest answers: a second answer is refused with the first. */
  answered: GivenAnswer[];
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
  /** The sequence of its `input.accepted`, and the client's own request where its dialect echoes requests. */
  sequence?: number;
  payload?: unknown;
  /** Instructions that the agent has to be started with. */
  instructions?: string;
  options?: TurnOptions;
}

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
  if (fold.processOpen || fold.turn || fold.command || fold.deleted) return true;
  return !fold.ended && fold.inbox.length > 0;
}

/** Whether nothing runs and nothing waits; an agent without a turn may be there. */
export function isResting(fold: SessionFold): boolean {
  if (fold.ended) return true;
  return !fold.turn && !fold.command && !fold.paused && fold.inbox.length === 0;
}

/** Applies one event. Deterministic: a live session and its log give the same fold. */
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
    case "session.deleted":
      fold.deleted = true;
      return;
    case "session.updated": {
      const { title, model, variant, metadata, settings, native_session_id: native, input_id } = event.data;
      if (title !== undefined) fold.changes.title = title;
      if (model !== undefined) fold.changes.model = model;
      if (variant !== undefined) fold.changes.variant = variant;
      if (metadata !== undefined) fold.changes.metadata = metadata;
      if (settings !== undefined) applySettings(fold, settings as Partial<SessionSpec>);
      if (native !== undefined) fold.nativeSessionId = native;
      for (const input of fold.inbox) if (input.inputId === input_id) delete input.instructions;
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
      if (fold.turn && fold.turn.waitingFor.length === 0) continueClock(fold.turn, time);
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
      fold.command = { id, startedAt: time, told: { stdout: 0, stderr: 0 }, ...defined({ timeoutMs }) };
      return;
    }
    case "command.output":
      if (fold.command) fold.command.told[event.data.stream] = event.data.offset;
      return;
    case "command.ended":
      delete fold.command;
      return;
    case "input.accepted": {
      const { input_id: inputId, turn_id: turnId, content, payload, instructions, options } = event.data;
      // An input with the id of the running turn joins it; every other input waits in the queue.
      if (fold.turn?.id === turnId) return steer(fold.turn, inputId, content);
      fold.inbox.push({
        inputId,
        turnId,
        content,
        ...(payload === undefined ? {} : { sequence, payload }),
        ...defined({ instructions, options }),
      });
      return;
    }
    case "turn.started": {
      const { input_ids: ids } = event.data;
      const inputs = fold.inbox.filter((input) => ids.includes(input.inputId));
      fold.inbox = fold.inbox.filter((input) => !ids.includes(input.inputId));
      fold.turn = startTurnFold(inputs, event.data, time);
      return;
    }
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

/** A delta changes only the text of its item. There may be a hundred thousand a second. */
export function applyDelta(fold: SessionFold, { item_id: id, delta }: EventData<"item.delta">): void {
  fold.head += 1;
  const open = (fold.turn && own(fold.turn.open, id)) ?? own(fold.open, id);
  if (open) open.text += delta;
}

function applyItemStarted(fold: SessionFold, item: Item, byAgent: boolean): void {
  const { turn } = fold;
  setOwn(turn?.open ?? fold.open, item.item_id, { item, text: "" });
  // Output of the agent means that the model answers again.
  if (turn && byAgent) turn.attempts = 0;
}

function applyItemCompleted(fold: SessionFold, item: Item, parentId: string | undefined): void {
  const { turn } = fold;
  delete fold.open[item.item_id];
  if (!turn) return;
  delete turn.open[item.item_id];
  for (const part of item.content) {
    if (part.type === "tool_call" && item.kind === "tool_call") {
      const call: OpenCall = { itemId: item.item_id, ...defined({ parentId }) };
      setOwn(turn.calls, part.call_id, call);
      const name = fromToolServerName(part.name);
      if (name !== undefined)
        joinRequest(turn, part.call_id, { ...call, bridged: { name, arguments: part.arguments } });
    }
    if (part.type === "tool_result") delete turn.calls[part.call_id];
  }
}

/** Adds a request's usage to a running total, in place. A kind of token without a report stays absent. */
export function addUsage(total: Usage, delta: Usage): void {
  for (const [kind, amount] of Object.entries(delta) as [keyof Usage, number | undefined][]) {
    if (amount !== undefined) total[kind] = (total[kind] ?? 0) + amount;
  }
}

/** A model that a client chooses replaces the one that the agent reported before. */
function applySettings({ changes }: SessionFold, settings: Partial<SessionSpec>): void {
  changes.settings = { ...changes.settings, ...settings };
  if (settings.model !== undefined) delete changes.model;
  if (settings.variant !== undefined) delete changes.variant;
}
