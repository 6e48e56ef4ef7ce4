import type { BudgetMeasure, EventData, EventDraft, Usage } from "../../contract/index.ts";
import { addClock, type TurnClock } from "../turn/time-limit.ts";

/** The part of the session's fold that is about its budget. Old snapshots have none of it. */
export interface BudgetFold {
  /** Model requests, those of them without a known price, and the milliseconds of work of ended turns. */
  spent?: { requests: number; unpriced: number; ms: number };
  /** Limits that were raised by grants, in place of the spec's. */
  ceilings?: Partial<Record<BudgetMeasure, number>>;
  /** A grant has lifted the whole budget (`all`), or the rule that every request has a known price (`unpriced`). */
  lifted?: "all" | "unpriced";
  /** The budget that is used up and waits for a decision. */
  reached?: EventData<"budget.reached"> & { denied?: true };
  /** The sandbox is paused for the budget. */
  frozen?: true;
}

interface Session extends BudgetFold {
  readonly usage: Usage;
  readonly turn: { readonly clock: TurnClock } | null;
}

/** The message of a `sandbox.paused` for the budget. It distinguishes this pause from that of a client. */
export const PAUSED_FOR_BUDGET = "the budget is used up";

/** Applies an event to the budget, before it changes the rest of the fold. */
export function applyToBudget(fold: Session, event: EventDraft, time: number): void {
  switch (event.type) {
    case "model.started":
      fold.spent = { ...spentOf(fold), requests: spentOf(fold).requests + 1 };
      return;
    case "model.ended":
      if (isUnpriced(event.data)) fold.spent = { ...spentOf(fold), unpriced: spentOf(fold).unpriced + 1 };
      return;
    case "turn.ended":
      if (fold.turn)
        fold.spent = { ...spentOf(fold), ms: spentOf(fold).ms + addClock(fold.turn.clock, time) };
      delete fold.reached;
      return;
    case "budget.reached":
      fold.reached = event.data;
      return;
    case "permission.resolved": {
      const { reached } = fold;
      if (reached?.permission_id !== event.data.permission_id) return;
      if (event.data.status === "denied") fold.reached = { ...reached, denied: true };
      else if (replyOf(event.data) === "raised") delete fold.reached;
      else grant(fold, reached, replyOf(event.data) === "always");
      return;
    }
    case "session.updated":
      if (!Object.hasOwn((event.data.settings ?? {}) as object, "budget")) return;
      delete fold.ceilings;
      delete fold.lifted;
      return;
    case "sandbox.paused":
      if (event.data.message === PAUSED_FOR_BUDGET) fold.frozen = true;
      return;
    case "sandbox.resumed":
      delete fold.frozen;
      // A client's resume of a session that its budget paused counts as a grant.
      if (fold.reached?.action === "pause") grant(fold, fold.reached, false);
      return;
    default:
  }
}

export function spentOf({ spent }: BudgetFold): NonNullable<BudgetFold["spent"]> {
  return spent ?? { requests: 0, unpriced: 0, ms: 0 };
}

/** Whether a request used tokens without a known price. */
function isUnpriced({ usage }: EventData<"model.ended">): boolean {
  return usage !== undefined && usage.cost_usd === undefined;
}

function grant(fold: BudgetFold, reached: EventData<"budget.reached">, isAlways: boolean): void {
  const { measure, limit, spent, amount, unpriced } = reached;
  delete fold.reached;
  if (isAlways) fold.lifted = "all";
  else if (unpriced !== undefined) fold.lifted = "unpriced";
  else fold.ceilings = { ...fold.ceilings, [measure]: Math.max(limit, spent) + amount };
}

function replyOf({ metadata }: EventData<"permission.resolved">): unknown {
  return (metadata as { reply?: unknown } | undefined)?.reply;
}
