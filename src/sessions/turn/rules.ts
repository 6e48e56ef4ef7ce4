import { defined } from "../../contract/own-keys.ts";
import {
  type EventDraft,
  type RetryBudget,
  type SessionSpec,
  type SpoolLine,
  own,
  type ContentPart,
  type Item,
} from "../../contract/index.ts";
import type { HarnessFact, ModelFailed } from "../../harness/port.ts";
import { policyAnswer } from "../actions/policy.ts";
import type { Drafts } from "../fold/drafts.ts";
import type { SessionFold } from "../fold/session-fold.ts";
import { BY_BUDGET, engineFailure, engineFailureEvents } from "./engine-failure.ts";
import { DEFAULT_BUDGET, planRetry } from "./retry.ts";
import { closeTurn, type TurnOutcome } from "./turn-end.ts";

/** Turns a fact of the harness into events. The rules of a turn are applied here and nowhere else. */
export function admitFact(fold: SessionFold, drafts: Drafts, fact: HarnessFact, options: AdmitOptions): void {
  const { raw } = options;
  const { turn } = fold;
  if (fact.type === "item.delta" && !turn?.retry) {
    return drafts.addDelta(fact.data, { source: fact.source ?? "agent", parentId: fact.parent_id, raw });
  }
  switch (fact.type) {
    case "session.started": {
      const native = fact.native_session_id;
      if (native === undefined || native === fold.nativeSessionId) return;
      const update = { native_session_id: native, data: { native_session_id: native } };
      return drafts.add(withRaw({ type: "session.updated", source: "agent", ...update }, raw));
    }
    case "turn.ended": {
      if (!turn) return drafts.add(stray("a turn ended while none was running", options));
      const { status, stop_reason: stopReason, error, details } = fact.data;
      const outcome: TurnOutcome = { status, stopReason, ...defined({ error, details }) };
      return drafts.addAll(closeTurn(fold, outcomeOf(fold, outcome)));
    }
    case "model.failed": {
      if (!turn)
        return drafts.add(stray(`the model failed while no turn was running: ${fact.message}`, options));
      const until = limitOf(fold, fact, drafts.time);
      const plan = planRetry(turn, fact, budgetOf(options.spec), { until, now: drafts.time });
      for (const event of plan.events) drafts.add(event.source === "agent" ? withRaw(event, raw) : event);
      if (plan.kind === "give-up") drafts.addAll(closeTurn(fold, plan.outcome));
      return;
    }
    case "permission.requested":
    case "question.requested":
      drafts.add(withRaw({ ...fact, source: fact.source ?? "agent" }, raw));
      return answerByPolicy(fold, drafts, options);
    case "turn.retrying": {
      drafts.add(withRaw(ofTurn({ ...fact, source: "agent" }, turn?.id), raw));
      // A CLI may retry for ever; the session's budget is the limit.
      if (!turn || turn.interrupt || fact.data.attempt < budgetOf(options.spec).tries) return;
      const data = { turn_id: turn.id, by: "retries" };
      return drafts.addAll([
        ...engineFailureEvents(turn, data.by),
        { type: "interrupt.requested", source: "daemon", data },
      ]);
    }
    case "item.completed":
      for (const event of synthesized(fold, fact.data.item, fact.parent_id)) drafts.add(event);
      return drafts.add(withRaw({ ...fact, source: fact.source ?? "agent" }, raw));
    default:
      // Output after a CLI's own retry means that the retry succeeded.
      if (turn?.retry) {
        drafts.add({ type: "turn.resumed", source: "daemon", data: { turn_id: turn.id, reason: "retry" } });
      }
      drafts.add(
        withRaw(
          ofTurn({ ...fact, ...ofPlan(fold, fact), source: fact.source ?? "agent" } as EventDraft, turn?.id),
          raw,
        ),
      );
      if (fact.type === "tool.requested") answerByPolicy(fold, drafts, options);
  }
}

/** Lets the session's policy answer the newest request. */
function answerByPolicy(
  { turn }: SessionFold,
  drafts: Drafts,
  { spec, bridges }: Pick<AdmitOptions, "spec" | "bridges">,
): void {
  const pending = turn?.pending.at(-1);
  if (pending) drafts.addAll(policyAnswer(spec, pending, { bridges }));
}

export interface AdmitOptions {
  readonly spec: SessionSpec;
  /** Whether the tool server offers built-in tools in place of the agent's own. */
  readonly bridges?: boolean | undefined;
  readonly raw: string | undefined;
  /** The native line of the fact. */
  readonly line: Pick<SpoolLine, "dir" | "at">;
}

/** An interrupted turn that did not complete has the interrupt as its outcome, whatever the CLI reports. */
export function outcomeOf(fold: SessionFold, outcome: TurnOutcome): TurnOutcome {
  const { turn } = fold;
  // A led agent whose request was held back has not completed its work, whatever it says.
  const wasHeld = fold.led === true && turn?.interrupt?.by === BY_BUDGET;
  if (!turn?.interrupt || (outcome.status === "completed" && !wasHeld)) return outcome;
  const failure = engineFailure(turn);
  return failure ? { status: "failed", ...failure } : { status: "interrupted", stopReason: "interrupted" };
}

/** Nobody pays the cost that an agent reports while it uses the login of a plan. */
function ofPlan({ credential }: SessionFold, fact: HarnessFact): object {
  if (credential !== "plan_login" || fact.type !== "model.ended") return {};
  return { data: { ...fact.data, price: { table: "plan" } } };
}

/** The reset of the provider's limit, by the gateway's last answer or by the agent. */
function limitOf({ limit }: SessionFold, { retryAfterMs }: ModelFailed, now: number): number | undefined {
  if (limit !== undefined && limit > now) return limit;
  return retryAfterMs === undefined ? undefined : now + retryAfterMs;
}

function budgetOf(spec: SessionSpec): RetryBudget {
  return spec.retries ?? DEFAULT_BUDGET;
}

function stray(error: string, options: AdmitOptions): EventDraft {
  const { line, raw } = options;
  const data = { error, location: `${line.dir}:${line.at}` };
  return withRaw({ type: "agent.unparsed", source: "agent", data }, raw);
}

function withRaw(event: EventDraft, raw: string | undefined): EventDraft {
  if (raw !== undefined) event.raw = raw;
  return event;
}

/** A harness does not know the turn's id and leaves it empty. */
function ofTurn(event: EventDraft, turnId: string | undefined): EventDraft {
  if (turnId !== undefined && "turn_id" in event.data && event.data.turn_id === "")
    event.data.turn_id = turnId;
  return event;
}

/** The events that an agent omits before an item's end: the start, and one delta with the text. Pure. */
function synthesized(fold: SessionFold, item: Item, parentId: string | undefined): EventDraft[] {
  const open = (fold.turn && own(fold.turn.open, item.item_id)) ?? own(fold.open, item.item_id);
  const text = item.content.map(textOf).join("");
  const events: EventDraft[] = [];
  const by = { source: "daemon", parent_id: parentId } as const;
  if (!open) {
    const started: Item = { ...item, status: "in_progress", content: item.content.map(emptied) };
    events.push({ type: "item.started", ...by, data: { item: started } });
  }
  const isStreamed = item.kind === "message" && item.role !== "user" && text !== "";
  if (isStreamed && (open?.text ?? "") === "") {
    const { item_id, native_item_id } = item;
    events.push({
      type: "item.delta",
      ...by,
      data: { item_id, ...defined({ native_item_id }), delta: text },
    });
  }
  return events;
}

function textOf(part: ContentPart): string {
  return part.type === "text" || part.type === "reasoning" ? part.text : "";
}

function emptied(part: ContentPart): ContentPart {
  return part.type === "text" || part.type === "reasoning" ? { ...part, text: "" } : part;
}
