import type { EventDraft, Usage } from "../../contract/index.ts";
import { own, setOwn } from "../../contract/own-keys.ts";

/** The part of the session's fold that is about model requests. */
export interface RequestFold {
  /** The gateway leads the last process: its records replace the agent's own reports of model requests. */
  led?: true;
  /** The offset in the gateway's records behind the last one in the log. */
  recorded?: number;
  /** Requests without an end, each with its turn: those of the gateway, and those that an agent began outside of a turn. */
  requests?: Record<string, string | null>;
  /** The reset time of the model provider's limit, if its last answer has one. */
  limit?: number;
  /** The models of the open requests that the agent reported. */
  asked?: Record<string, string>;
}

interface Totals extends RequestFold {
  readonly usage: Usage;
  readonly turn: { readonly id: string; readonly usage: Usage; models: string[] } | null;
}

/** Applies an event about a model request. */
export function applyToRequests(fold: Totals, event: EventDraft): void {
  switch (event.type) {
    case "model.started": {
      const { offset, request_id: id } = event.data;
      if (offset === undefined) {
        if (event.data.model !== undefined) setOwn((fold.asked ??= {}), id, event.data.model);
        if (fold.turn) return void fold.turn.models.push(id);
      } else fold.recorded = offset;
      fold.requests = { ...fold.requests };
      return setOwn(fold.requests, id, fold.turn?.id ?? null);
    }
    case "model.first":
      if (event.data.offset !== undefined) fold.recorded = event.data.offset;
      return;
    case "model.ended": {
      const { usage, offset, request_id: id } = event.data;
      if (usage) addUsage(fold.usage, usage);
      const { status, rate } = event.data;
      if (status === 429 && rate?.reset !== undefined) fold.limit = Date.parse(rate.reset);
      else if (status !== undefined && status < 400) delete fold.limit;
      const turn = own(fold.requests ?? {}, id);
      // The end of a side call may come in a later turn than its start.
      const isOfTurn = turn === undefined || turn === fold.turn?.id;
      if (usage && fold.turn && isOfTurn) addUsage(fold.turn.usage, usage);
      if (fold.asked) delete fold.asked[id];
      if (fold.turn) fold.turn.models = fold.turn.models.filter((open) => open !== id);
      if (offset !== undefined) fold.recorded = offset;
      if (turn === undefined) return;
      const { [id]: _ended, ...rest } = fold.requests ?? {};
      fold.requests = rest;
      return;
    }
    case "error": {
      const { offset } = (event.data.details ?? {}) as { offset?: unknown };
      if ((event.data.code === REFUSED || event.data.code === INCOMPLETE) && typeof offset === "number")
        fold.recorded = offset;
      return;
    }
    case "turn.retrying":
    case "budget.reached":
      if (event.data.offset !== undefined) fold.recorded = event.data.offset;
      return;
    default:
  }
}

/** An end for each request without one: no answer can come after the end of the agent's process. Pure. */
export function cutRequests({ requests = {} }: RequestFold): EventDraft[] {
  const error = { code: "cut", message: "the agent's process ended before the answer was complete" };
  return Object.keys(requests).map((id) => ({
    type: "model.ended",
    source: "daemon",
    data: { request_id: id, error },
  }));
}

/** The error code of a request that the gateway refused. */
export const REFUSED = "gateway_refused";
/** The error code of an incomplete cassette. */
export const INCOMPLETE = "cassette_incomplete";

/** Adds a request's usage to a running total, in place. A kind of token without a report stays absent. */
export function addUsage(total: Usage, delta: Usage): void {
  for (const [kind, amount] of Object.entries(delta) as [keyof Usage, number | undefined][]) {
    if (amount !== undefined) total[kind] = (total[kind] ?? 0) + amount;
  }
}
