import type { PlanEntry } from "../../contract/index.ts";
import { isRecord, type Params } from "../rpc.ts";
import { modelKey, placeOf, type Reading } from "./reading.ts";
import { asThread } from "./texts.ts";

export function updatePlan(reading: Reading, params: Params): boolean {
  const { plan, threadId } = params;
  if (!Array.isArray(plan)) return false;
  reading.scribe.plan(plan.filter(isRecord).map(toEntry), placeOf(reading, asThread(threadId)));
  return true;
}

function toEntry({ step, status }: Params): PlanEntry {
  const now = status === "completed" ? "completed" : status === "inProgress" ? "in_progress" : "pending";
  return { content: String(step ?? ""), status: now, priority: "medium" };
}

/** Codex leaves it to its client to ask whether the plan shall be carried out. */
export function askForPlan(reading: Reading, plan: string): void {
  const { scribe } = reading;
  const call = `plan:${scribe.transcript.count}`;
  const name = "implement_plan";
  scribe.endModel(modelKey(reading, undefined), {});
  scribe.call(call, { name, input: { plan } });
  const metadata = { call_id: call, name, input: { plan }, kind: "plan" as const };
  scribe.askPermission({ kind: "plan", call }, { action: name, metadata });
}

/** What was decided shows itself in what Codex does next. */
export function closePlanCall(reading: Reading): void {
  const { decided, ...rest } = reading.state;
  if (!decided) return;
  reading.state = rest;
  reading.scribe.result(decided.call, {
    output: decided.approved ? "approved" : "declined",
    failed: !decided.approved,
  });
}
