import type { AgentRuntimeState, SandboxLifecycleState } from "../dialects/content/index.ts";

/**
 * A snapshot of the sandbox and of what runs in it.
 *
 * @example
 * const { sandbox, agent, activeProcessId }: SessionStatus = sluice.status();
 */
export interface SessionStatus {
  sandboxId: string | null;
  sandbox: SandboxLifecycleState;
  agent: AgentRuntimeState;
  /** The run or command that is active, by its id in the log. */
  activeProcessId: string | null;
  /** Whether the agent has run in this sandbox. */
  hasRun: boolean;
  /** ISO 8601. */
  timestamp: string;
}
