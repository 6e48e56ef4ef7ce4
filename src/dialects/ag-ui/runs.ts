import type { AGUIEvent } from "@ag-ui/core";
import { type EventData, isRecord, own, type Usage, without } from "../../contract/index.ts";
import type { Projectors } from "../shared/projection.ts";
import { type AgUiInterrupt, STATE_KEY, toInterrupt, toShared } from "./interrupts.ts";
import type { AgUiProjection } from "./projection.ts";
import { type Ask, CLEAN, fromPayload, isProtocolOne, type RunPayload, type Shared } from "./state.ts";
import { suspendSubagents } from "./subagents.ts";
import { endTexts } from "./texts.ts";
import { endCalls } from "./tool-calls.ts";

type Outcome = NonNullable<Extract<AGUIEvent, { type: "RUN_FINISHED" }>["outcome"]>;

/** Turns as runs, and the requests that the runs wait for. */
export const runProjectors: Projectors<AgUiProjection> = {
  "turn.started": (projection, { data }) => {
    const { turn_id: turn, inputs = [] } = data;
    const runs = inputs.flatMap(({ input_id: inputId, payload }) => {
      const run = fromPayload(payload);
      return run ? [{ inputId, run }] : [];
    });
    const sent = runs.map(({ inputId, run }) => [toItemId(inputId), run.messageId ?? toItemId(inputId)]);
    projection.change({ ...CLEAN, turn, next: runs[0]?.run ?? null, sent: Object.fromEntries(sent) });
    projection.begin();
  },

  /** Ends the run of a withdrawn input for its own reader. Another run may be open, and keeps its state. */
  "input.withdrawn": (projection, { data }) => {
    const { state } = projection;
    const run = fromPayload(data.payload);
    if (!run || state.view.run !== run.runId) return;
    projection.change({ ...CLEAN, turn: data.turn_id, next: run });
    projection.begin();
    end(projection, { turn_id: data.turn_id, status: "interrupted", stop_reason: "interrupted" });
    projection.change(state);
  },

  /** A wait ends the run; the answer starts the next one. */
  "turn.waiting": (projection, { data }) => {
    const { view, asks, run, next } = projection.state;
    if (!run && !next) return;
    if (view.bridged && data.actions.every(isTool)) return;
    projection.begin();
    closeAll(
      projection,
      data.actions.filter((action) => !isTool(action)).map(({ id }) => id),
    );
    const runId = projection.state.run?.id ?? "";
    const interrupts = data.actions.flatMap(({ id }) => {
      const ask = own(asks, id);
      return ask && ask.kind !== "tool" ? [toInterrupt(id, { ...ask, kind: ask.kind }, runId)] : [];
    });
    if (interrupts.length > 0) return emitInterrupts(projection, interrupts);
    const pendingToolCallIds = data.actions.flatMap(({ id }) => own(asks, id)?.callId ?? []);
    emitStateDelta(projection, "waiting");
    const outcome = {
      type: "success" as const,
      ...(isProtocolOne(projection.state.run ?? view) ? { pendingToolCallIds } : {}),
    };
    finish(projection, outcome, "tool_calls");
  },

  "turn.ended": (projection, { data }) => {
    const { run, next, diff } = projection.state;
    // A turn that ends during a wait has no open run.
    if (run || next) {
      projection.begin();
      closeAll(projection, []);
      if (diff) projection.custom("file.changed", diff);
      emitStateDelta(projection, "idle");
      end(projection, data);
    }
    projection.change({ ...CLEAN, turn: null });
  },

  /** Keeps a request until its answer. It becomes an interrupt when the turn waits for it. */
  "permission.requested": (projection, { data }) => {
    const metadata = isRecord(data.metadata) ? data.metadata : {};
    const given = metadata["call_id"];
    const callId = typeof given === "string" ? given : undefined;
    const call = callId === undefined ? undefined : own(projection.state.calls, callId);
    keep(projection, data.permission_id, {
      kind: "permission",
      prompt: data.action,
      ...(call === undefined || callId === undefined ? {} : { callId: call.alias ?? callId }),
      ...(metadata["input"] === undefined ? {} : { input: metadata["input"] }),
      ...(call?.subagent === undefined ? {} : { subagent: call.subagent }),
    });
  },

  "permission.resolved": (projection, { data }) => forgetAsk(projection, data.permission_id),
  "question.requested": (projection, { data: { question_id: id, prompt, options } }) =>
    keep(projection, id, { kind: "question", prompt, options }),
  "question.resolved": (projection, { data }) => forgetAsk(projection, data.question_id),
  "model.ended": (projection, { data }) => {
    const { run } = projection.state;
    if (run && data.usage) projection.changeRun({ usage: addUsage(run.usage, data.model ?? "", data.usage) });
  },
};

/**
 * Notes the run that an answer starts. A client with tools may have left its run meanwhile: then that run ends here.
 */
export function projectNextRun(projection: AgUiProjection, next: RunPayload): void {
  const { view, run, asks } = projection.state;
  const open = Object.values(asks);
  if (view.bridged && run && open.length > 0 && open.every(isTool)) {
    closeAll(projection, []);
    emitStateDelta(projection, "waiting");
    finish(projection, { type: "success" }, "tool_calls");
  }
  projection.change({ next });
}

function end(projection: AgUiProjection, data: EventData<"turn.ended">): void {
  const { status, stop_reason: reason, error } = data;
  if (status === "completed") return finish(projection, { type: "success" }, toFinishReason(reason));
  if (status === "interrupted" && isProtocolOne(projection.state.run ?? projection.state.view))
    return finish(projection, { type: "cancelled" }, "stop");
  const code = status === "interrupted" ? "cancelled" : (error?.code ?? reason);
  const message =
    error?.message ?? (status === "interrupted" ? "The run was cancelled." : `The run failed: ${reason}.`);
  const { id: runId } = projection.state.run ?? { id: "" };
  projection.end("RUN_ERROR", {
    message,
    code,
    metadata: { tanstack: { threadId: projection.thread, runId } },
  });
}

function emitInterrupts(projection: AgUiProjection, interrupts: readonly AgUiInterrupt[]): void {
  projection.snapshot("waiting");
  finish(projection, { type: "interrupt", interrupts: [...interrupts] }, "stop");
}

function finish(projection: AgUiProjection, outcome: Outcome, finishReason: string): void {
  projection.begin();
  const { id: runId = "", usage = {} } = projection.state.run ?? {};
  const model = Object.keys(usage).find((name) => name !== "");
  const counted = toUsage(usage);
  projection.end("RUN_FINISHED", {
    threadId: projection.thread,
    runId,
    outcome,
    ...(counted.length === 0 ? {} : { usage: counted }),
    metadata: { tanstack: { finishReason, ...(model === undefined ? {} : { model }) } },
  });
}

function isTool({ kind }: { kind: string }): boolean {
  return kind === "tool";
}

function closeAll(projection: AgUiProjection, interruptIds: readonly string[]): void {
  endTexts(projection);
  endCalls(projection);
  suspendSubagents(projection, interruptIds);
}

function toFinishReason(reason: EventData<"turn.ended">["stop_reason"]): string {
  if (reason === "max_tokens") return "length";
  return reason === "refusal" ? "content_filter" : "stop";
}

function toItemId(inputId: string): string {
  return inputId.replace(/^inp_/, "itm_");
}

interface AgUiUsage {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly totalTokens: number;
  readonly cachedInputTokens?: number;
  readonly reasoningTokens?: number;
  readonly model?: string;
}

function addUsage(
  sums: Readonly<Record<string, Usage>>,
  model: string,
  usage: Usage,
): Readonly<Record<string, Usage>> {
  const sum: Record<string, number | undefined> = { ...sums[model] };
  for (const [key, value] of Object.entries(usage)) sum[key] = (sum[key] ?? 0) + (value ?? 0);
  return { ...sums, [model]: sum as Usage };
}

/** One entry for each model. The log counts cached tokens apart from the input; this dialect has one sum of them. */
function toUsage(sums: Readonly<Record<string, Usage>>): AgUiUsage[] {
  return Object.entries(sums).map(([model, usage]) => toEntry(model, usage));
}

function toEntry(model: string, usage: Usage): AgUiUsage {
  const { cache_read_tokens: cached, reasoning_tokens: reasoning } = usage;
  const inputTokens = (usage.input_tokens ?? 0) + (cached ?? 0) + (usage.cache_write_tokens ?? 0);
  const outputTokens = usage.output_tokens ?? 0;
  return {
    inputTokens,
    outputTokens,
    totalTokens: inputTokens + outputTokens,
    ...(cached === undefined ? {} : { cachedInputTokens: cached }),
    ...(reasoning === undefined ? {} : { reasoningTokens: reasoning }),
    ...(model === "" ? {} : { model }),
  };
}

function forgetAsk(projection: AgUiProjection, id: string): void {
  projection.change({ asks: without(projection.state.asks, id) });
  emitStateDelta(projection, "running");
}

function keep(projection: AgUiProjection, id: string, ask: Ask): void {
  projection.change({ asks: { ...projection.state.asks, [id]: ask } });
  emitStateDelta(projection, "running");
}

/** Emits the changes of our part of the state since this run's last snapshot or delta. */
function emitStateDelta(projection: AgUiProjection, status: Shared["status"]): void {
  const { run, shared } = projection.state;
  if (!run || !shared) return;
  const next = toShared(projection.state, status);
  const delta = (["status", "pending"] as const)
    .filter((field) => JSON.stringify(next[field]) !== JSON.stringify(shared[field]))
    .map((field) => ({ op: "replace" as const, path: `/${STATE_KEY}/${field}`, value: next[field] }));
  if (delta.length === 0) return;
  projection.emit("STATE_DELTA", { delta });
  projection.change({ shared: next });
}
