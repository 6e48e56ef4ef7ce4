import { own } from "../../contract/ownKeys.ts";
import type { EventData, EventOf } from "../../contract/index.ts";
import { type AgUiInterrupt, toInterrupt } from "./interrupt.ts";
import { fromPayload, type RunPayload } from "./payload.ts";
import { tellStateDelta } from "./shared-state.ts";
import { CLEAN } from "./state.ts";
import { suspendSubagents } from "./subagent-frames.ts";
import type { Teller } from "./teller.ts";
import { endTexts } from "./text-frames.ts";
import { endCalls } from "./tool-frames.ts";
import { toUsage } from "./usage.ts";
import { speaksOne } from "./view.ts";

export function tellTurnStarted(teller: Teller, { data }: EventOf<"turn.started">): void {
  const { turn_id: turn, inputs = [] } = data;
  const runs = inputs.flatMap(({ input_id: inputId, payload }) => {
    const run = fromPayload(payload);
    return run ? [{ inputId, run }] : [];
  });
  const sent = runs.map(({ inputId, run }) => [toItemId(inputId), run.messageId ?? toItemId(inputId)]);
  teller.change({ ...CLEAN, turn, next: runs[0]?.run ?? null, sent: Object.fromEntries(sent) });
  teller.begin();
}

/** Whoever is asked gets the word: the run ends, and the answer begins the next one. */
export function tellWaiting(teller: Teller, { data }: EventOf<"turn.waiting">): void {
  const { view, asks, run, next } = teller.state;
  if (!run && !next) return;
  if (view.bridged && data.actions.every(isTool)) return;
  teller.begin();
  closeAll(
    teller,
    data.actions.filter((action) => !isTool(action)).map(({ id }) => id),
  );
  const runId = teller.state.run?.id ?? "";
  const interrupts = data.actions.flatMap(({ id }) => {
    const ask = own(asks, id);
    return ask && ask.kind !== "tool" ? [toInterrupt(id, { ...ask, kind: ask.kind }, runId)] : [];
  });
  if (interrupts.length > 0) return tellInterrupts(teller, interrupts);
  const pendingToolCallIds = data.actions.flatMap(({ id }) => own(asks, id)?.callId ?? []);
  tellStateDelta(teller, "waiting");
  const outcome = { type: "success", ...(speaksOne(teller.state.run ?? view) ? { pendingToolCallIds } : {}) };
  finish(teller, outcome, "tool_calls");
}

/** A client that answers its tools while the run goes on, and has let go of it after all: its answer begins the next. */
export function tellNextRun(teller: Teller, next: RunPayload): void {
  const { view, run, asks } = teller.state;
  const open = Object.values(asks);
  if (view.bridged && run && open.length > 0 && open.every(isTool)) {
    closeAll(teller, []);
    tellStateDelta(teller, "waiting");
    finish(teller, { type: "success" }, "tool_calls");
  }
  teller.change({ next });
}

export function tellTurnEnded(teller: Teller, { data }: EventOf<"turn.ended">): void {
  const { run, next, diff } = teller.state;
  // A turn that ends while it waits for its application has no run to end.
  if (run || next) {
    teller.begin();
    closeAll(teller, []);
    if (diff) teller.custom("file.changed", diff);
    tellStateDelta(teller, "idle");
    end(teller, data);
  }
  teller.change({ ...CLEAN, turn: null });
}

function end(teller: Teller, data: EventData<"turn.ended">): void {
  const { status, stop_reason: reason, error } = data;
  if (status === "completed") return finish(teller, { type: "success" }, toFinishReason(reason));
  if (status === "interrupted" && speaksOne(teller.state.run ?? teller.state.view))
    return finish(teller, { type: "cancelled" }, "stop");
  const code = status === "interrupted" ? "cancelled" : (error?.code ?? reason);
  const message =
    error?.message ?? (status === "interrupted" ? "The run was cancelled." : `The run failed: ${reason}.`);
  const { id: runId } = teller.state.run ?? { id: "" };
  teller.end("RUN_ERROR", { message, code, metadata: { tanstack: { threadId: teller.thread, runId } } });
}

function tellInterrupts(teller: Teller, interrupts: readonly AgUiInterrupt[]): void {
  teller.snapshot("waiting");
  finish(teller, { type: "interrupt", interrupts }, "stop");
}

function finish(teller: Teller, outcome: object, finishReason: string): void {
  teller.begin();
  const { id: runId = "", usage = {} } = teller.state.run ?? {};
  const model = Object.keys(usage).find((name) => name !== "");
  const counted = toUsage(usage);
  teller.end("RUN_FINISHED", {
    threadId: teller.thread,
    runId,
    outcome,
    ...(counted.length === 0 ? {} : { usage: counted }),
    metadata: { tanstack: { finishReason, ...(model === undefined ? {} : { model }) } },
  });
}

function isTool({ kind }: { kind: string }): boolean {
  return kind === "tool";
}

function closeAll(teller: Teller, interruptIds: readonly string[]): void {
  endTexts(teller);
  endCalls(teller);
  suspendSubagents(teller, interruptIds);
}

function toFinishReason(reason: EventData<"turn.ended">["stop_reason"]): string {
  if (reason === "max_tokens") return "length";
  return reason === "refusal" ? "content_filter" : "stop";
}

function toItemId(inputId: string): string {
  return inputId.replace(/^inp_/, "itm_");
}
