import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** The real agents that tests drive; the set-up of `npm test -- --all` puts them on PATH. */
export type AgentId = "claude" | "codex" | "opencode" | "gemini" | "grok";

/** Where an agent's program is on PATH; undefined where it is not. */
export function findAgent(id: AgentId): string | undefined {
  const folders = (process.env["PATH"] ?? "").split(delimiter).filter(Boolean);
  return folders.map((folder) => join(folder, id)).find(isExecutable);
}

export type RequiredAgent =
  | { readonly path: string; readonly reason?: undefined }
  | { readonly path?: undefined; readonly reason: string };

/**
 * The agent's program, or the reason to skip the test that needs it. Under CI=true nothing is skipped: it throws.
 *
 *     const { path, reason } = requireAgent("claude");
 *     if (path === undefined) return skip(reason);
 */
export function requireAgent(id: AgentId): RequiredAgent {
  const path = findAgent(id);
  if (path !== undefined) return { path };
  const reason = `${id} is not on PATH; \`npm test -- --all\` installs it for the tests`;
  if (process.env["CI"] === "true") throw new Error(`${reason}, and under CI=true it has to be there`);
  return { reason };
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
