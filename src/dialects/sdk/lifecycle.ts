import type { EventOf } from "../../contract/index.ts";
import type { LifecycleReason } from "./lifecycle-event.ts";
import type { SdkProjection } from "./projection.ts";

export function projectTurnStarted(projection: SdkProjection, { data }: EventOf<"turn.started">): void {
  projection.change({
    turn: { id: data.turn_id, background: data.options?.background === true },
    open: {},
    calls: {},
    failure: null,
  });
  projection.lifecycle("run_start", { sandbox: "running", runtime: "running" });
}

export function projectTurnEnded(projection: SdkProjection, { data }: EventOf<"turn.ended">): void {
  const background = projection.state.turn?.background === true;
  const isReported = data.error?.message === projection.state.failure;
  if (data.error && !isReported) projection.output("stderr", `${data.error.message}\n`);
  projection.change({ turn: null, open: {}, calls: {}, failure: null });
  if (data.status === "interrupted")
    return projection.lifecycle("run_interrupted", { sandbox: "ready", runtime: "interrupted" });
  const isDone = data.status === "completed";
  const reason = toEndReason("run", { background, isDone });
  projection.lifecycle(reason, { sandbox: "ready", runtime: isDone ? "idle" : "error" });
}

export function projectCommandStarted(projection: SdkProjection, { data }: EventOf<"command.started">): void {
  projection.change({ command: { id: data.command_id, background: data.background === true } });
  projection.lifecycle("command_start", { sandbox: "running", runtime: "running" });
}

export function projectCommandEnded(projection: SdkProjection, { data }: EventOf<"command.ended">): void {
  const background = projection.state.command?.background === true;
  projection.change({ command: null });
  const isBusy = projection.state.turn !== null;
  const sandbox = isBusy ? "running" : "ready";
  if (data.status === "interrupted")
    return projection.lifecycle("command_interrupted", {
      sandbox,
      runtime: isBusy ? "running" : "interrupted",
    });
  const isDone = data.status === "completed";
  const reason = toEndReason("command", { background, isDone });
  projection.lifecycle(reason, { sandbox, runtime: isBusy ? "running" : isDone ? "idle" : "error" });
}

function toEndReason(
  kind: "run" | "command",
  { background, isDone }: { background: boolean; isDone: boolean },
): LifecycleReason {
  if (background) return isDone ? `${kind}_background_complete` : `${kind}_background_failed`;
  return isDone ? `${kind}_complete` : `${kind}_failed`;
}

export function projectResumed(projection: SdkProjection): void {
  const { turn, command, runtime } = projection.state;
  const isBusy = turn !== null || command !== null;
  projection.lifecycle("sandbox_resume", { sandbox: isBusy ? "running" : "ready", runtime });
}

/** Reports the end of the sandbox once: the end of its session is the end of the sandbox too. */
export function projectKilled(projection: SdkProjection): void {
  const { sandbox } = projection.state;
  projection.change({ turn: null, command: null });
  // A stopped sandbox has reported its end, a failed one its error.
  if (sandbox === "stopped" || sandbox === "error") return;
  projection.lifecycle("sandbox_killed", { sandbox: "stopped", runtime: "idle" });
}

/** A failure goes to stderr, never into the agent's messages. */
export function projectError(projection: SdkProjection, { data }: EventOf<"error">): void {
  projection.change({ failure: data.message });
  projection.output("stderr", `${data.message}\n`);
}
