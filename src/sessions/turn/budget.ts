import { BudgetMeasure, type EventData, type EventDraft, type SessionSpec } from "../../contract/index.ts";
import { defined } from "../../contract/own-keys.ts";
import { permissionResolved } from "../actions/resolutions.ts";
import { spentOf } from "../fold/budget-fold.ts";
import type { SessionFold } from "../fold/session-fold.ts";
import { type DeskBudget } from "../../gateway/desk.ts";
import type { GatewayRecord } from "../../gateway/record.ts";
import { readOwn } from "../../gateway/pricing.ts";
import type { SessionRow } from "../../log/port.ts";
import type { SessionDeps } from "../deps.ts";
import { toDue, type Due } from "../upkeep/alarms.ts";
import { BUDGET_FAILURE, BY_BUDGET, engineFailureEvents } from "./engine-failure.ts";
import { addClock } from "./time-limit.ts";
import { closeTurn } from "./turn-end.ts";

/** The action of the permission that asks for more. */
export const BUDGET_ACTION = "budget";

const PREFIX = "perm_budget_";
const MINUTE = 60_000;
/** An alarm may ring a little early by the wall clock. */
const MARGIN_MS = 20;

type Reached = EventData<"budget.reached">;
type Hit = Pick<Reached, "measure" | "limit" | "amount" | "spent" | "unpriced">;

/** Whether the engine itself takes the answer, and no agent waits for it. */
export function isBudgetRequest(id: string): boolean {
  return id.startsWith(PREFIX);
}

/** The amount of each measure that the session has used. */
export function usedOf(fold: SessionFold, time: number): Record<BudgetMeasure, number> {
  const { input_tokens = 0, output_tokens = 0, cache_write_tokens = 0, cost_usd = 0 } = fold.usage;
  const { requests, ms } = spentOf(fold);
  const working = fold.turn ? addClock(fold.turn.clock, time) : 0;
  return {
    usd: cost_usd,
    tokens: input_tokens + output_tokens + cache_write_tokens,
    requests,
    minutes: (ms + working) / MINUTE,
  };
}

/** The limits that hold now, with all grants; undefined for a session without a budget. */
export function ceilingsOf(
  { ceilings, lifted }: SessionFold,
  { budget }: SessionSpec,
): Partial<Record<BudgetMeasure, number>> | undefined {
  if (!budget || lifted === "all") return undefined;
  const { on: _on, ...limits } = budget;
  return defined({ ...limits, ...ceilings });
}

/** The first measure that is used up. Pure. */
export function findReached(fold: SessionFold, spec: SessionSpec, time: number): Hit | undefined {
  const ceilings = ceilingsOf(fold, spec);
  if (!ceilings) return undefined;
  const used = usedOf(fold, time);
  const { unpriced } = spentOf(fold);
  for (const measure of BudgetMeasure.options) {
    const limit = ceilings[measure];
    const amount = spec.budget?.[measure];
    if (limit === undefined || amount === undefined) continue;
    const isBlind = measure === "usd" && unpriced > 0 && fold.lifted === undefined;
    if (used[measure] >= limit || isBlind)
      return { measure, limit, amount, spent: used[measure], ...(isBlind ? { unpriced } : {}) };
  }
  return undefined;
}

/**
 * The events that follow from the budget, at the end of each batch: a budget that is used up, its consequences, and the
 * answer of a budget that was raised. The gateway checks the requests of a led agent, so only the start of its turn, and
 * its time, are checked here. Pure.
 */
export function budgetEvents(
  fold: SessionFold,
  spec: SessionSpec,
  { time, startsTurn }: { time: number; startsTurn: boolean },
): EventDraft[] {
  const { turn, reached } = fold;
  if (!turn || turn.interrupt) return [];
  if (reached?.denied) return stopEvents(fold, reached);
  const hit = findReached(fold, spec, time);
  if (reached) return hit === undefined && reached.scope === "session" ? settled(fold) : [];
  if (!hit || (fold.led && !startsTurn && hit.measure !== "minutes")) return [];
  return reachedEvents(fold, spec, { ...hit, ...(startsTurn ? { at_start: true } : {}) });
}

/** The events of a budget that is used up in the running turn. Pure. */
export function reachedEvents(
  fold: SessionFold,
  spec: SessionSpec,
  hit: Hit & Pick<Reached, "at_start" | "offset"> & { scope?: Reached["scope"] },
): EventDraft[] {
  const { scope = "session" } = hit;
  // A client of a workspace may not raise the budget of the workspace.
  const action =
    scope === "workspace" ? "stop" : (spec.budget?.on ?? (spec.unattended === true ? "stop" : "ask"));
  const id = action === "ask" ? `${PREFIX}${fold.head + 1}` : undefined;
  const data: Reached = { ...hit, scope, action, ...defined({ permission_id: id }) };
  const reached: EventDraft = { type: "budget.reached", source: "daemon", data };
  if (id === undefined) return action === "stop" ? [reached, ...stopEvents(fold, data)] : [reached];
  const { measure, limit, spent, unpriced } = data;
  const metadata = {
    kind: BUDGET_ACTION,
    scope,
    measure,
    limit,
    spent,
    ...defined({ unpriced }),
    message: toWords(data),
  };
  return [
    reached,
    {
      type: "permission.requested",
      source: "daemon",
      data: { permission_id: id, action: BUDGET_ACTION, status: "requested", metadata },
    },
  ];
}

/** Ends the turn. An agent that has not got the message yet need not be interrupted. */
function stopEvents(fold: SessionFold, { at_start: isAtStart }: Reached): EventDraft[] {
  const { turn } = fold;
  if (!turn) return [];
  const failed = engineFailureEvents(turn, BY_BUDGET);
  if (!isAtStart)
    return [
      ...failed,
      { type: "interrupt.requested", source: "daemon", data: { turn_id: turn.id, by: BY_BUDGET } },
    ];
  return [...failed, ...closeTurn(fold, { status: "failed", ...BUDGET_FAILURE })];
}

/** A raised budget answers the open request. */
function settled({ turn, reached }: SessionFold): EventDraft[] {
  const pending = turn?.pending.find(({ id }) => id === reached?.permission_id);
  return pending ? [permissionResolved(pending, "approved", { reply: "raised", by: "budget" })] : [];
}

/** One sentence for a person who has to decide. */
export function toWords({ measure, limit, spent, unpriced }: Hit): string {
  if (unpriced !== undefined)
    return `The prices of ${unpriced} model requests are not known, so the budget of ${toAmount("usd", limit)} cannot be kept. once goes on without their prices, always lifts the budget, reject ends the turn.`;
  return `The budget of ${toAmount(measure, limit)} is used up (${toAmount(measure, spent)} so far). once allows the same amount again, always lifts the budget, reject ends the turn.`;
}

function toAmount(measure: BudgetMeasure, amount: number): string {
  if (measure === "usd") return `$${amount.toFixed(amount < 1 ? 4 : 2)}`;
  return `${Math.round(amount * 100) / 100} ${measure}`;
}

/** The moment at which the minutes of the running turn are used up. */
export function minutesDue(fold: SessionFold, spec: SessionSpec): Due[] {
  const { turn } = fold;
  const limit = ceilingsOf(fold, spec)?.minutes;
  if (!turn || limit === undefined || turn.clock.since === null || fold.reached) return [];
  const left = limit * MINUTE - spentOf(fold).ms - turn.clock.spent;
  return [toDue("budget", turn.clock.since, Math.max(0, left) + MARGIN_MS)];
}

/** The events for a request that the gateway holds; none where the budget allows more by now. Pure. */
export function heldEvents(
  fold: SessionFold,
  spec: SessionSpec,
  held: Omit<Extract<GatewayRecord, { type: "held" }>, "type" | "time"> & { offset: number },
): EventDraft[] {
  const { measure, spent, offset, scope, ...record } = held;
  const { turn } = fold;
  if (!turn || turn.interrupt || fold.reached) return [];
  const unpriced = record.unpriced && { unpriced: 1 };
  if (scope === "workspace")
    return reachedEvents(fold, spec, {
      scope,
      measure,
      limit: record.limit,
      amount: record.limit,
      spent,
      offset,
      ...unpriced,
    });
  const limit = ceilingsOf(fold, spec)?.[measure];
  const amount = spec.budget?.[measure];
  if (limit === undefined || amount === undefined) return [];
  if (record.unpriced ? fold.lifted !== undefined : spent < limit) return [];
  return reachedEvents(fold, spec, { measure, limit, amount, spent, offset, ...unpriced });
}

/** What a session has used, and the position in its gateway's records up to which that is counted. */
export type Account = Pick<DeskBudget, "spent" | "at">;

export function toAccount(fold: SessionFold): Account {
  const { minutes: _minutes, ...spent } = usedOf(fold, 0);
  return { spent, at: fold.recorded ?? 0 };
}

interface AccountHolder {
  readonly fold: SessionFold;
  readonly spec: SessionSpec;
  readonly row: SessionRow;
  /** As committed. The workspace's sum has committed events only. */
  readonly account: Account;
}

/** The budget for the gateway of a led agent, the workspace's included; undefined where there is none. */
export async function toDeskBudget(
  holder: AccountHolder,
  deps: Pick<SessionDeps, "log" | "workspaceBudget">,
): Promise<DeskBudget | undefined> {
  let { account } = holder;
  let uses = await readWorkspace(holder.row, deps);
  // Both sums have to be of one moment. A session that commits faster than its workspace is read gets the last try.
  for (let tries = 1; account !== holder.account && tries < MOST_READS; tries++) {
    account = holder.account;
    uses = await readWorkspace(holder.row, deps);
  }
  const { fold, spec } = holder;
  const { spent, at } = account;
  const { minutes: _limit, ...ceilings } = ceilingsOf(fold, spec) ?? {};
  const workspace: CountedMeasure[] = [];
  for (const { measure, limit, spent: used } of uses) {
    const ceiling = spent[measure] + limit - used;
    if (ceiling >= (ceilings[measure] ?? Number.POSITIVE_INFINITY)) continue;
    ceilings[measure] = ceiling;
    workspace.push(measure);
  }
  if (Object.keys(ceilings).length === 0 && !fold.reached) return undefined;
  return {
    spent,
    ceilings,
    workspace,
    at,
    ...(fold.reached ? { isOpen: true } : {}),
    ...(fold.turn?.interrupt?.by === BY_BUDGET ? { isOver: true } : {}),
    // A workspace's budget accepts no request without a price.
    takesUnpriced: fold.lifted !== undefined && !workspace.includes("usd"),
    prices: readOwn(),
  };
}

const MOST_READS = 3;

type CountedMeasure = Exclude<BudgetMeasure, "minutes">;
type WorkspaceUse = { readonly measure: CountedMeasure; readonly limit: number; readonly spent: number };

/** The use of each limit in the budget of the session's workspace; empty for a workspace without a budget. */
export async function readWorkspace(
  { tenant }: Pick<SessionRow, "tenant">,
  { log, workspaceBudget }: Pick<SessionDeps, "log" | "workspaceBudget">,
): Promise<WorkspaceUse[]> {
  const budget = tenant === undefined ? undefined : workspaceBudget(tenant);
  if (!budget || tenant === undefined) return [];
  const sum = await log.usage.total(tenant);
  // A request without a price uses up a budget in dollars.
  const usd = sum.unknown > 0 ? Math.max(sum.usd, budget.usd ?? 0) : sum.usd;
  const used = { usd, tokens: sum.input + sum.output + sum.cacheWrite, requests: sum.requests };
  return (["usd", "tokens", "requests"] as const).flatMap((measure) => {
    const limit = budget[measure];
    return limit === undefined ? [] : [{ measure, limit, spent: used[measure] }];
  });
}
