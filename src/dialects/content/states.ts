import type { EventOf } from "../../contract/index.ts";
import type { LifecycleReason } from "./lifecycle-event.ts";
import type { Narrator } from "./narrator.ts";

/** What the events of sandboxes, turns and commands come to. */

export function tellTurnStarted(narrator: Narrator, { data }: EventOf<"turn.started">): void {
  narrator.change({
    turn: { id: data.turn_id, background: data.options?.background === true },
    open: {},
    calls: {},
    failure: null,
  });
  narrator.lifecycle("run_start", "running", "running");
}

export function tellTurnEnded(narrator: Narrator, { data }: EventOf<"turn.ended">): void {
  const background = narrator.state.turn?.background === true;
  if (data.error && data.error.message !== narrator.state.failure)
    narrator.output("stderr", `${data.error.message}\n`);
  narrator.change({ turn: null, open: {}, calls: {}, failure: null });
  if (data.status === "interrupted") return narrator.lifecycle("run_interrupted", "ready", "interrupted");
  const isDone = data.status === "completed";
  const reason: LifecycleReason = background
    ? isDone
      ? "run_background_complete"
      : "run_background_failed"
    : isDone
      ? "run_complete"
      : "run_failed";
  narrator.lifecycle(reason, "ready", isDone ? "idle" : "error");
}

export function tellCommandStarted(narrator: Narrator, { data }: EventOf<"command.started">): void {
  narrator.change({ command: { id: data.command_id, background: data.background === true } });
  narrator.lifecycle("command_start", "running", "running");
}

export function tellCommandEnded(narrator: Narrator, { data }: EventOf<"command.ended">): void {
  const background = narrator.state.command?.background === true;
  narrator.change({ command: null });
  const isBusy = narrator.state.turn !== null;
  const sandbox = isBusy ? "running" : "ready";
  if (data.status === "interrupted")
    return narrator.lifecycle("command_interrupted", sandbox, isBusy ? "running" : "interrupted");
  const isDone = data.status === "completed";
  const reason: LifecycleReason = background
    ? isDone
      ? "command_background_complete"
      : "command_background_failed"
    : isDone
      ? "command_complete"
      : "command_failed";
  narrator.lifecycle(reason, sandbox, isBusy ? "running" : isDone ? "idle" : "error");
}

export function tellResumed(narrator: Narrator): void {
  const { turn, command, runtime } = narrator.state;
  const isBusy = turn !== null || command !== null;
  narrator.lifecycle("sandbox_resume", isBusy ? "running" : "ready", runtime);
}

/** The end of a session is the end of its sandbox for whoever ran it; said once. */
export function tellKilled(narrator: Narrator): void {
  const { sandbox } = narrator.state;
  narrator.change({ turn: null, command: null });
  // One that could not be made has nothing that could be ended.
  if (sandbox === "stopped" || sandbox === "error") return;
  narrator.lifecycle("sandbox_killed", "stopped", "idle");
}

/** Failures are told as what they are, and never as words of the agent. */
export function tellError(narrator: Narrator, { data }: EventOf<"error">): void {
  narrator.change({ failure: data.message });
  narrator.output("stderr", `${data.message}\n`);
}
