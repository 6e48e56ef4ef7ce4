import type { EventDraft, RetryBudget, SessionSpec, SpoolLine } from "../contract/index.ts";
import type { HarnessFact } from "../harness/port.ts";
import { closeTurn, type TurnOutcome } from "./closing.ts";
import type { Drafts } from "./drafts.ts";
import { failureBy, failureOf } from "./failure.ts";
import type { SessionFold } from "./fold.ts";
import { policyAnswer } from "./policy.ts";
import { synthesized } from "./synthesis.ts";
import { DEFAULT_BUDGET, planRetry } from "./retry.ts";

/** Turns what a harness said into what the log records: the turn's rules are applied here, and nowhere else. */
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
      return drafts.add(
        withRaw(
          {
            type: "session.updated",
            source: "agent",
            native_session_id: native,
            data: { native_session_id: native },
          },
          raw,
        ),
      );
    }
    case "turn.ended": {
      if (!turn) return drafts.add(stray("a turn ended while none was running", options));
      const { status, stop_reason: stopReason, error, details } = fact.data;
      const outcome: TurnOutcome = {
        status,
        stopReason,
        ...(error === undefined ? {} : { error }),
        ...(details === undefined ? {} : { details }),
      };
      return drafts.addAll(closeTurn(fold, outcomeOf(fold, outcome)));
    }
    case "model.failed": {
      if (!turn)
        return drafts.add(stray(`the model failed while no turn was running: ${fact.message}`, options));
      const plan = planRetry(turn, fact, budgetOf(options.spec));
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
      // A CLI may go on for ever; the session's budget holds for it too.
      if (!turn || turn.interrupt || fact.data.attempt < budgetOf(options.spec).tries) return;
      const data = { turn_id: turn.id, by: "retries" };
      return drafts.addAll([
        ...failureOf(turn, data.by),
        { type: "interrupt.requested", source: "daemon", data },
      ]);
    }
    case "item.completed":
      for (const event of synthesized(fold, fact.data.item, fact.parent_id)) drafts.add(event);
      return drafts.add(withRaw({ ...fact, source: fact.source ?? "agent" }, raw));
    default:
      // A CLI that retries by itself says so; its next words mean that it has gone on.
      if (turn?.retry) {
        drafts.add({ type: "turn.resumed", source: "daemon", data: { turn_id: turn.id, reason: "retry" } });
      }
      drafts.add(withRaw(ofTurn({ ...fact, source: fact.source ?? "agent" } as EventDraft, turn?.id), raw));
      if (fact.type === "tool.requested") answerByPolicy(fold, drafts, options);
  }
}

/** What was just asked may be the policy's to answer. */
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
  /** Whether the agent finds the tools that its application runs at the bridge, and nowhere else. */
  readonly bridges?: boolean | undefined;
  readonly raw: string | undefined;
  /** The native line that said it. */
  readonly line: Pick<SpoolLine, "dir" | "at">;
}

/** An interrupt that was asked for decides what an end is called, whatever the CLI calls it. */
export function outcomeOf(fold: SessionFold, outcome: TurnOutcome): TurnOutcome {
  const { turn } = fold;
  if (!turn?.interrupt || outcome.status === "completed") return outcome;
  const failure = failureBy(turn);
  return failure ? { status: "failed", ...failure } : { status: "interrupted", stopReason: "interrupted" };
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

/** A harness leaves the turn's id empty: only the engine knows it. */
function ofTurn(event: EventDraft, turnId: string | undefined): EventDraft {
  if (turnId !== undefined && "turn_id" in event.data && event.data.turn_id === "")
    event.data.turn_id = turnId;
  return event;
}
