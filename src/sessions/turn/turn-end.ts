import { defined } from "../../contract/own-keys.ts";
import type {
  ContentPart,
  EventData,
  EventDraft,
  EventError,
  Item,
  StopReason,
} from "../../contract/index.ts";
import { permissionResolved, questionResolved, toolResolved } from "../actions/resolutions.ts";
import type { SessionFold } from "../fold/session-fold.ts";
import type { OpenItem, Pending, TurnFold } from "../fold/turn-fold.ts";

export interface TurnOutcome {
  readonly status: EventData<"turn.ended">["status"];
  readonly stopReason: StopReason;
  readonly error?: EventError;
  readonly details?: unknown;
}

/** The end of everything that is open in the turn, and then the one terminal event of the turn. Pure. */
export function closeTurn(fold: SessionFold, outcome: TurnOutcome): EventDraft[] {
  const { turn } = fold;
  if (!turn) return [];
  const reason = outcome.stopReason === "end_turn" ? "unanswered" : outcome.stopReason;
  return [
    ...turn.pending.map((pending) => closePending(pending, reason)),
    ...Object.values(turn.open).map((open) => closeItem(turn, open, outcome, reason)),
    ...Object.values(fold.open).map((open) => closeItem(turn, open, outcome, reason)),
    ...Object.entries(turn.calls).flatMap(([callId, { itemId }]) => closeCall(turn, callId, itemId, reason)),
    ...[...turn.models, ...strayRequests(fold)].map((id): EventDraft => ({
      type: "model.ended",
      source: "daemon",
      data: { request_id: id },
    })),
    endOf(turn, outcome),
  ];
}

/** The requests that the agent began between turns; none for a led agent: the gateway records the ends. */
function strayRequests({ led, requests = {} }: SessionFold): string[] {
  return led === true ? [] : Object.keys(requests);
}

function endOf(turn: TurnFold, outcome: TurnOutcome): EventDraft {
  const { status, stopReason, error, details } = outcome;
  return {
    type: "turn.ended",
    source: "daemon",
    data: {
      turn_id: turn.id,
      status,
      stop_reason: stopReason,
      ...defined({ error, details }),
      ...(Object.keys(turn.usage).length === 0 ? {} : { usage: turn.usage }),
    },
  };
}

function closePending(pending: Pending, reason: string): EventDraft {
  const by = "daemon";
  if (pending.kind === "permission") return permissionResolved(pending, "denied", { by, reason });
  if (pending.kind === "question") return questionResolved(pending, { status: "rejected" });
  return toolResolved(pending, { status: "cancelled", content: [], by });
}

function closeItem(turn: TurnFold, open: OpenItem, outcome: TurnOutcome, reason: string): EventDraft {
  const status = outcome.status === "completed" ? "completed" : "failed";
  const content = open.item.kind === "tool_result" ? resultOf(turn, open, reason) : withText(open);
  return { type: "item.completed", source: "daemon", data: { item: { ...open.item, status, content } } };
}

/** The output so far, or the reason where there is none. */
function resultOf(turn: TurnFold, { item, text }: OpenItem, reason: string): ContentPart[] {
  const call = Object.entries(turn.calls).find(([, { itemId }]) => itemId === item.parent_id);
  const output = text === "" ? JSON.stringify({ status: reason }) : text;
  return [{ type: "tool_result", call_id: call?.[0] ?? item.native_item_id ?? item.item_id, output }];
}

/** The item's content with the streamed text, in the part that its kind streams into. */
function withText({ item, text }: OpenItem): ContentPart[] {
  if (text === "") return item.content;
  const [first, ...rest] = item.content;
  if (first?.type === "reasoning" || first?.type === "text")
    return [{ ...first, text: first.text + text }, ...rest];
  if (first?.type === "tool_call") return [{ ...first, arguments: first.arguments + text }, ...rest];
  return [{ type: "text", text }, ...item.content];
}

/** A failed result for a call without one; none where the call has an open result item, which `closeItem` ends. */
function closeCall(turn: TurnFold, callId: string, itemId: string, reason: string): EventDraft[] {
  const resultIsOpen = Object.values(turn.open).some(
    ({ item }) => item.kind === "tool_result" && item.parent_id === itemId,
  );
  if (resultIsOpen) return [];
  const item: Item = {
    item_id: `${itemId}_result`,
    parent_id: itemId,
    kind: "tool_result",
    role: "tool",
    status: "in_progress",
    content: [],
  };
  const output = JSON.stringify({ status: reason });
  return [
    { type: "item.started", source: "daemon", data: { item } },
    {
      type: "item.completed",
      source: "daemon",
      data: {
        item: { ...item, status: "failed", content: [{ type: "tool_result", call_id: callId, output }] },
      },
    },
  ];
}

/** The callers that wait for the end of a turn. */
export class TurnEnds {
  readonly #waiting = new Map<string, (() => void)[]>();

  /** Settles when the turn has ended, or the session was closed. */
  of(turnId: string): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.set(turnId, [...(this.#waiting.get(turnId) ?? []), resolve]);
    });
  }

  /** Wakes all callers but those of the running turn. */
  settle(running: string | undefined): void {
    for (const [turnId, waiters] of this.#waiting) {
      if (turnId === running) continue;
      this.#waiting.delete(turnId);
      for (const resolve of waiters) resolve();
    }
  }
}
