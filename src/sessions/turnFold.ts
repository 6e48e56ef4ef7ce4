import {
  bridgedToolName,
  type ContentPart,
  type EventData,
  type EventDraft,
  type EventError,
  type Item,
  type PendingAction,
  type TurnOptions,
  type Usage,
} from "../contract/index.ts";
import { own, setOwn } from "../contract/ownKeys.ts";
import type { HarnessCommand } from "../harness/port.ts";
import { fromResponse } from "./answers.ts";
import { isBridgedRequest, isSameInput } from "./bridged.ts";
import type { SessionFold } from "./fold.ts";

/** The turn that runs: what is open in it, whom it waits for, and what the harness must have been told. */
export interface TurnFold {
  id: string;
  startedAt: number;
  options?: TurnOptions;
  inputIds: string[];
  open: Record<string, OpenItem>;
  /** Calls whose result has not come back, by call id: the tool_call item, and the sub-agent's that made it. */
  calls: Record<string, OpenCall>;
  /** Model requests without their end. */
  models: string[];
  pending: Pending[];
  /** Calls of the application's tools that somebody allowed and that no request has come of yet; a snapshot of before has none. */
  allowed?: AllowedCall[];
  /** The requests that the last `turn.waiting` named; empty while the turn goes on. */
  waitingFor: string[];
  /** `due` is null where the CLI retries by itself. A snapshot of before has no `since`. */
  retry: { attempt: number; since?: number; due: number | null; error?: EventError } | null;
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

export interface AllowedCall {
  name: string;
  callId?: string;
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

/** The inputs that it takes leave the inbox, and are the first that the harness must be told. */
export function startTurnFold(fold: SessionFold, data: EventData<"turn.started">, time: number): void {
  const inputs = fold.inbox.filter((input) => data.input_ids.includes(input.inputId));
  fold.inbox = fold.inbox.filter((input) => !data.input_ids.includes(input.inputId));
  fold.turn = {
    id: data.turn_id,
    startedAt: time,
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

/** What an event means to the turn that runs. */
export function applyToTurn(
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
        since: time,
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
      // The first one stops it; a second one is only kept.
      if (turn.interrupt) return;
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
      if (callId !== undefined) delete own(turn.calls, callId)?.bridged;
      useAllowed(turn, name, callId);
      return ask(turn, pending, callId, event.parent_id);
    }
    case "permission.resolved": {
      const reply = readReply(event.data.metadata);
      if (event.data.status === "approved") allow(turn, event.data);
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
    case "error": {
      const id = undeliveredOf(event.data);
      if (id !== undefined) turn.outbox = turn.outbox.filter((entry) => entry.id !== id);
      return;
    }
    default:
  }
}

/** The error that says that the agent will never be told something, in place of trying for ever. */
export function undeliveredError(id: string, message: string): EventDraft {
  const data = { code: "undeliverable", message, details: { undelivered: id } };
  return { type: "error", source: "daemon", data };
}

function undeliveredOf({ code, details }: EventData<"error">): string | undefined {
  if (code !== "undeliverable" || typeof details !== "object" || details === null) return undefined;
  const { undelivered } = details as { undelivered?: unknown };
  return typeof undelivered === "string" ? undelivered : undefined;
}

/** A request that came before the call that it comes from belongs to it all the same. */
export function joinRequest(
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
  if (!early) setOwn(turn.calls, callId, call);
  else early.callId = callId;
}

export function steer(turn: TurnFold, inputId: string, content: ContentPart[]): void {
  turn.inputIds.push(inputId);
  turn.outbox.push({ id: `prompt:${inputId}`, command: { type: "steer", inputId, content } });
}

/** The allowed call that a request would be, if there is one. */
export function findAllowed(
  turn: TurnFold,
  name: string,
  callId: string | undefined,
): AllowedCall | undefined {
  return turn.allowed?.find(
    (allowed) => allowed.name === name && (allowed.callId === undefined || allowed.callId === callId),
  );
}

/** One permission is one call. */
function useAllowed(turn: TurnFold, name: string, callId: string | undefined): void {
  const used = findAllowed(turn, name, callId);
  if (used !== undefined) turn.allowed = turn.allowed?.filter((allowed) => allowed !== used) ?? [];
}

function allow(turn: TurnFold, { action, metadata }: EventData<"permission.resolved">): void {
  const name = bridgedToolName(action);
  if (name === undefined) return;
  const callId = readCallId(metadata);
  turn.allowed = [...(turn.allowed ?? []), { name, ...(callId === undefined ? {} : { callId }) }];
}

/** Time in which nobody works does not count against the turn's limit. */
export function stopClock(turn: TurnFold, time: number): void {
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
