import { defined, own } from "../../contract/own-keys.ts";
import {
  fromToolServerName,
  type ContentPart,
  type EventData,
  type EventDraft,
  type EventError,
  type Item,
  type PendingAction,
  type TurnOptions,
  type Usage,
} from "../../contract/index.ts";
import type { HarnessCommand } from "../../harness/port.ts";
import { fromResponse } from "../actions/resolutions.ts";
import { continueClock, startClock, stopClock, type TurnClock } from "../turn/time-limit.ts";

/** The running turn: its open items and requests, and the commands for the harness. */
export interface TurnFold {
  id: string;
  startedAt: number;
  options?: TurnOptions;
  inputIds: string[];
  open: Record<string, OpenItem>;
  /** Calls without a result, by call id: the tool_call item, and the item of the sub-agent that made the call. */
  calls: Record<string, OpenCall>;
  /** Model requests without an end. */
  models: string[];
  pending: Pending[];
  /** Allowed calls of the application's tools that have not arrived yet. Old snapshots have none. */
  allowed?: AllowedCall[];
  /** The requests of the last `turn.waiting`; empty while the turn goes on. */
  waitingFor: string[];
  /** `due` is null where the CLI retries by itself. Old snapshots have no `since`. */
  retry: { attempt: number; since?: number; due: number | null; error?: EventError; until?: number } | null;
  attempts: number;
  interrupt: { at: number; by?: string } | null;
  usage: Usage;
  clock: TurnClock;
  /** Commands for the harness; each is sent once, by its id. */
  outbox: { id: string; command: HarnessCommand }[];
}

export interface OpenCall {
  itemId: string;
  parentId?: string;
  /** A call of one of the application's tools whose request has not arrived yet. */
  bridged?: { name: string; arguments: string };
}

export interface AllowedCall {
  name: string;
  callId?: string;
}

export interface OpenItem {
  item: Item;
  text: string;
  /** Whether the text was too long. Its end says so, and it grows no more. */
  cut?: true;
}

export interface Pending extends PendingAction {
  metadata?: unknown;
  callId?: string;
  /** The item of the sub-agent that made the request. */
  parentId?: string;
}

const ANSWERS_KEPT = 256;

/** The answer to a request, and the person or program that gave it. */
export interface GivenAnswer {
  id: string;
  answer: string;
  by?: string;
}

/** The part of the session's fold that the events of a turn use. */
interface TurnSession {
  readonly paused: boolean;
  readonly answered: GivenAnswer[];
}

/** The fold of a new turn. Its inputs are the first commands for the harness. */
export function startTurnFold(
  inputs: readonly { readonly inputId: string; readonly content: ContentPart[] }[],
  data: EventData<"turn.started">,
  time: number,
): TurnFold {
  return {
    id: data.turn_id,
    startedAt: time,
    ...defined({ options: data.options }),
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
    clock: startClock(time),
    outbox: inputs.map(({ inputId, content }) => ({
      id: `prompt:${inputId}`,
      command: { type: "prompt", inputId, content },
    })),
  };
}

/** Applies an event to the running turn. */
export function applyToTurn(
  fold: TurnSession,
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
      // With `until` the gateway itself waits for a limit. That is no attempt, and no time of work.
      if (event.data.until === undefined) turn.attempts = event.data.attempt;
      else stopClock(turn, time);
      turn.retry = {
        attempt: event.data.attempt,
        since: time,
        due: event.source === "daemon" && event.data.offset === undefined ? time + event.data.delay_ms : null,
        error: event.data.error,
        ...(event.data.until === undefined ? {} : { until: Date.parse(event.data.until) }),
      };
      return;
    case "turn.resumed":
      if (typeof turn.retry?.due === "number") {
        // The number of the attempt is not unique: it starts again after output of the agent.
        turn.outbox.push({ id: `retry:${turn.id}:${sequence}`, command: { type: "retry" } });
      }
      turn.retry = null;
      turn.waitingFor = [];
      if (!fold.paused) continueClock(turn, time);
      return;
    case "interrupt.requested":
      // Only the first interrupt stops the turn.
      if (turn.interrupt) return;
      turn.interrupt = { at: time, ...defined({ by: event.data.by }) };
      turn.outbox.push({ id: `interrupt:${turn.id}`, command: { type: "interrupt" } });
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
        ...defined({ message: reply.message }),
      });
    }
    case "question.resolved": {
      const { question_id: id, status, response } = event.data;
      const answers = status === "answered" ? fromResponse(response ?? "") : undefined;
      const message = answers === undefined ? response : undefined;
      return answer(fold, turn, id, response ?? status, undefined, {
        type: "question",
        id,
        ...defined({ answers, message }),
      });
    }
    case "tool.resolved": {
      const { request_id: id, status, content, by } = event.data;
      const isError = status !== "completed";
      return answer(fold, turn, id, status, by, { type: "tool", id, content, isError });
    }
    case "error": {
      const id = undeliveredOf(event.data);
      if (id !== undefined) turn.outbox = turn.outbox.filter((entry) => entry.id !== id);
      return;
    }
    default:
  }
}

/** The error for a command that can never be delivered. It takes the command out of the outbox. */
export function undeliveredError(id: string, message: string): EventDraft {
  const data = { code: "undeliverable", message, details: { undelivered: id } };
  return { type: "error", source: "daemon", data };
}

function undeliveredOf({ code, details }: EventData<"error">): string | undefined {
  if (code !== "undeliverable" || typeof details !== "object" || details === null) return undefined;
  const { undelivered } = details as { undelivered?: unknown };
  return typeof undelivered === "string" ? undelivered : undefined;
}

export function steer(turn: TurnFold, inputId: string, content: ContentPart[]): void {
  turn.inputIds.push(inputId);
  turn.outbox.push({ id: `prompt:${inputId}`, command: { type: "steer", inputId, content } });
}

/** The allowed call that this request uses up, if there is one. */
export function findAllowed(turn: TurnFold, name: string, callId?: string): AllowedCall | undefined {
  return turn.allowed?.find(
    (allowed) => allowed.name === name && (allowed.callId === undefined || allowed.callId === callId),
  );
}

/** A permission allows one call. */
function useAllowed(turn: TurnFold, name: string, callId: string | undefined): void {
  const used = findAllowed(turn, name, callId);
  if (used !== undefined) turn.allowed = turn.allowed?.filter((allowed) => allowed !== used) ?? [];
}

function allow(turn: TurnFold, { action, metadata }: EventData<"permission.resolved">): void {
  const name = fromToolServerName(action);
  if (name === undefined) return;
  const callId = readCallId(metadata);
  turn.allowed = [...(turn.allowed ?? []), { name, ...defined({ callId }) }];
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
  fold: TurnSession,
  turn: TurnFold,
  id: string,
  text: string,
  by: string | undefined,
  command: HarnessCommand,
): void {
  turn.pending = turn.pending.filter((pending) => pending.id !== id);
  turn.outbox.push({ id: `answer:${id}`, command });
  fold.answered.push({ id, answer: text, ...defined({ by }) });
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
