import { defined, own, setOwn } from "../../contract/own-keys.ts";
import type {
  EventData,
  EventDraft,
  Item,
  PlanEntry,
  SessionSpec,
  SessionStatus,
  Usage,
} from "../../contract/index.ts";
import { fromToolServerName } from "../../contract/tool-names.ts";
import {
  applyToTurn,
  startTurnFold,
  type GivenAnswer,
  type OpenCall,
  type OpenItem,
  type TurnFold,
} from "./turn-fold.ts";
import { applyToQueue, takeInputs, type LeftInput, type QueuedInput } from "./queue.ts";
import { count, isSpeech, statusOfTurn, toFirstWords, toText, type Tally } from "./tally.ts";
import { applyToBudget, type BudgetFold } from "./budget-fold.ts";
import { applyToRequests, type RequestFold } from "./request-fold.ts";
import { collectText, releaseText } from "./long-texts.ts";
import { joinRequest } from "../actions/tool-requests.ts";
import { applyToSandbox, type SandboxFold } from "../sandbox/sandbox-fold.ts";
import { continueClock, stopClock } from "../turn/time-limit.ts";

/**
 * The engine's state of a session, folded from its log and from nothing else. Plain JSON, changed in place by its one
 * writer: a flood of deltas must not copy it.
 */
export interface SessionFold extends RequestFold, BudgetFold, SandboxFold {
  head: number;
  started: boolean;
  ended: EventData<"session.ended"> | null;
  /** `session.deleted` is in the log. */
  deleted?: true;
  /** The failure that ends the session after its process; no retry can help. */
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
  /** The length of the texts of all open items. It has a limit. */
  collected?: number;
  usage: Usage;
  /** The number of harness processes so far, and whether the last one is open. */
  processes: number;
  processOpen: boolean;
  /** The native session that the last process resumed. */
  resumed?: string;
  /** The place of the last agent's credential. */
  credential?: NonNullable<EventData<"process.started">["credential"]>;
  paused: boolean;
  /** The last checkpoint that was made or restored: the parent of the next one. */
  checkpoint: string | null;
  /** The client's command that runs in the sandbox. */
  command?: OpenCommand;
  /** The bytes of the process's stderr that are in the log. */
  echoed?: number;
  /** The latest answers: a second answer is refused with the first. */
  answered: GivenAnswer[];
  /** This field and the four below are absent in a fold that began with a snapshot of an older version. */
  tally?: Tally;
  plan?: PlanEntry[];
  /** The first words of the agent's newest message. */
  words?: string;
  /** The sequence of the last change of the queue. */
  queueChanged?: number;
  /** The latest inputs that left the queue. A refused change of one of them can say why it is gone. */
  left?: LeftInput[];
}

export interface OpenCommand {
  id: string;
  startedAt: number;
  timeoutMs?: number;
  /** How many bytes of each stream are in the log. */
  told: { stdout: number; stderr: number };
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

export function statusOf({ ended, turn }: SessionFold): SessionStatus {
  if (ended) return "ended";
  return turn ? statusOfTurn(turn) : "idle";
}

/** Whether a crash now would leave work for the next server. */
export function isActive(fold: SessionFold): boolean {
  if (fold.processOpen || fold.turn || fold.command || fold.deleted || fold.moving) return true;
  return !fold.ended && fold.inbox.length > 0;
}

/** Whether nothing runs and nothing waits. An idle agent may be alive. */
export function isResting(fold: SessionFold): boolean {
  if (fold.ended) return true;
  return !fold.turn && !fold.command && !isHeld(fold) && fold.inbox.length === 0;
}

/** Whether nothing may start in the sandbox now. */
export function isHeld({ paused, moving }: SessionFold): boolean {
  return paused || moving !== undefined;
}

/** Applies one event. Deterministic: a live session and its log give the same fold. */
export function applyEvent(fold: SessionFold, event: EventDraft, sequence: number, time: number): void {
  if (event.type === "item.delta") return applyDelta(fold, event.data);
  fold.head = sequence;
  count(fold, event, sequence);
  applyToBudget(fold, event, time);
  if (event.native_session_id !== undefined) fold.nativeSessionId = event.native_session_id;
  switch (event.type) {
    case "item.started":
      return applyItemStarted(fold, event.data.item, event.source === "agent");
    case "item.completed":
      if (isSpeech(event.data.item) && event.parent_id === undefined)
        fold.words = toFirstWords(toText(event.data.item.content));
      return applyItemCompleted(fold, event.data.item, event.parent_id);
    case "session.started":
      fold.started = true;
      return;
    case "session.ended":
      fold.ended = event.data;
      delete fold.moving;
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
    case "sandbox.moving":
    case "sandbox.killed":
    case "sandbox.error":
      return applyToSandbox(fold, event);
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
      delete fold.led;
      delete fold.credential;
      if (event.data.gateway === true) fold.led = true;
      if (event.data.credential !== undefined) fold.credential = event.data.credential;
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
    case "input.accepted":
    case "input.replaced":
    case "input.withdrawn":
    case "input.reordered":
      return applyToQueue(fold, event, sequence);
    case "turn.started": {
      const { input_ids: ids, turn_id: turnId } = event.data;
      fold.turn = startTurnFold(takeInputs(fold, { ids, turnId }, sequence), event.data, time);
      return;
    }
    case "plan.updated":
      fold.plan = event.data.entries;
      return;
    case "turn.ended":
      fold.turn = null;
      delete fold.collected;
      if (event.data.stop_reason === "model_error")
        fold.mustEnd = event.data.error?.message ?? "the model failed";
      return;
    case "model.started":
    case "model.first":
    case "model.ended":
    case "budget.reached":
    case "turn.retrying":
    case "error":
      applyToRequests(fold, event);
      if (fold.turn) applyToTurn(fold, fold.turn, event, sequence, time);
      return;
    default:
      if (fold.turn) applyToTurn(fold, fold.turn, event, sequence, time);
  }
}

/** A delta changes only the text of its item. There may be a hundred thousand a second. */
export function applyDelta(fold: SessionFold, { item_id: id, delta }: EventData<"item.delta">): void {
  fold.head += 1;
  const open = (fold.turn && own(fold.turn.open, id)) ?? own(fold.open, id);
  if (open) collectText(fold, open, delta);
}

function applyItemStarted(fold: SessionFold, item: Item, byAgent: boolean): void {
  const { turn } = fold;
  const items = turn?.open ?? fold.open;
  releaseText(fold, own(items, item.item_id));
  setOwn(items, item.item_id, { item, text: "" });
  // Output of the agent means that the model answers again.
  if (turn && byAgent) turn.attempts = 0;
}

function applyItemCompleted(fold: SessionFold, item: Item, parentId: string | undefined): void {
  const { turn } = fold;
  releaseText(fold, (turn && own(turn.open, item.item_id)) ?? own(fold.open, item.item_id));
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

/** A model that a client chooses replaces the one that the agent reported before. */
function applySettings({ changes }: SessionFold, settings: Partial<SessionSpec>): void {
  changes.settings = { ...changes.settings, ...settings };
  if (settings.model !== undefined) delete changes.model;
  if (settings.variant !== undefined) delete changes.variant;
}
