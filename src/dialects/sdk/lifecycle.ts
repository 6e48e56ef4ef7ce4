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
  reportEnd(projection, { kind: "run", background, status: data.status });
}

export function projectCommandStarted(projection: SdkProjection, { data }: EventOf<"command.started">): void {
  projection.change({ command: { id: data.command_id, background: data.background === true } });
  projection.lifecycle("command_start", { sandbox: "running", runtime: "running" });
}

export function projectCommandEnded(projection: SdkProjection, { data }: EventOf<"command.ended">): void {
  const background = projection.state.command?.background === true;
  projection.change({ command: null });
  reportEnd(projection, { kind: "command", background, status: data.status });
}

interface End {
  readonly kind: "run" | "command";
  readonly background: boolean;
  readonly status: "completed" | "failed" | "interrupted";
}

/** A run and a background command may overlap: after the end of one, the other still runs. */
function reportEnd(projection: SdkProjection, end: End): void {
  const reason = toEndReason(end);
  if (isBusy(projection)) return projection.lifecycle(reason, { sandbox: "running", runtime: "running" });
  projection.lifecycle(reason, { sandbox: "ready", runtime: RUNTIMES[end.status] });
}

const RUNTIMES = { completed: "idle", failed: "error", interrupted: "interrupted" } as const;

function toEndReason({ kind, background, status }: End): LifecycleReason {
  if (status === "interrupted") return `${kind}_interrupted`;
  const isDone = status === "completed";
  if (background) return isDone ? `${kind}_background_complete` : `${kind}_background_failed`;
  return isDone ? `${kind}_complete` : `${kind}_failed`;
}

function isBusy({ state: { turn, command } }: SdkProjection): boolean {
  return turn !== null || command !== null;
}

export function projectResumed(projection: SdkProjection): void {
  const { runtime } = projection.state;
  projection.lifecycle("sandbox_resume", { sandbox: isBusy(projection) ? "running" : "ready", runtime });
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
