import type { SessionSpec } from "../../contract/index.ts";

/** OpenCode's own agents that may lead a session. */
export const AGENTS = ["build", "plan"] as const;

/** Which of its agents a session runs; none leaves it to the user's configuration. */
export function agentOf({ agentMode, permissionMode }: SessionSpec): string | undefined {
  return agentMode ?? (permissionMode === "plan" ? "plan" : undefined);
}
