/**
 * A change of the sandbox, or of the run or command in it.
 *
 * @example
 * sluice.on("lifecycle", (event: LifecycleEvent) => console.log(event.reason, event.sandbox, event.agent));
 */
export interface LifecycleEvent {
  sandboxId: string | null;
  sandbox: SandboxLifecycleState;
  agent: AgentRuntimeState;
  /** ISO 8601. */
  timestamp: string;
  reason: LifecycleReason;
}

/**
 * The state of a sandbox.
 *
 * @example
 * const isThere = (state: SandboxLifecycleState): boolean => state === "ready" || state === "running";
 * isThere(sluice.status().sandbox);
 */
export type SandboxLifecycleState = "booting" | "error" | "ready" | "running" | "paused" | "stopped";

/**
 * The state of the agent, or of a command in its place.
 *
 * @example
 * const agent: AgentRuntimeState = sluice.status().agent;
 * if (agent === "running") await sluice.interrupt();
 */
export type AgentRuntimeState = "idle" | "running" | "interrupted" | "error";

/**
 * Why a lifecycle event was emitted.
 *
 * @example
 * const ends: LifecycleReason[] = ["run_background_complete", "run_background_failed", "run_interrupted"];
 * sluice.on("lifecycle", ({ reason }) => ends.includes(reason) && console.log("over"));
 */
export type LifecycleReason =
  | "sandbox_boot"
  | "sandbox_ready"
  | "sandbox_connected"
  | "sandbox_pause"
  | "sandbox_resume"
  | "sandbox_killed"
  | "sandbox_error"
  | "run_start"
  | "run_complete"
  | "run_interrupted"
  | "run_failed"
  | "run_background_complete"
  | "run_background_failed"
  | "command_start"
  | "command_complete"
  | "command_failed"
  | "command_interrupted"
  | "command_background_complete"
  | "command_background_failed";
