import { type EventOf, isRecord, own, without } from "../../contract/index.ts";
import { STATE_KEY, toShared } from "./interrupts.ts";
import type { AgUiProjection } from "./projection.ts";
import type { Ask, Shared } from "./state.ts";

/** Keeps a request until its answer. It becomes an interrupt when the turn waits for it. */
export function keepPermission(projection: AgUiProjection, { data }: EventOf<"permission.requested">): void {
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
}

export function keepQuestion(projection: AgUiProjection, { data }: EventOf<"question.requested">): void {
  keep(projection, data.question_id, { kind: "question", prompt: data.prompt, options: data.options });
}

export function forgetAsk(projection: AgUiProjection, id: string): void {
  projection.change({ asks: without(projection.state.asks, id) });
  emitStateDelta(projection, "running");
}

function keep(projection: AgUiProjection, id: string, ask: Ask): void {
  projection.change({ asks: { ...projection.state.asks, [id]: ask } });
  emitStateDelta(projection, "running");
}

/** Emits the changes of our part of the state since this run's last snapshot or delta. */
export function emitStateDelta(projection: AgUiProjection, status: Shared["status"]): void {
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
