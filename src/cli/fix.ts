import { spawn } from "node:child_process";
import { once } from "node:events";
import type { Diagnostics } from "./diagnostics.ts";
import { confirm, isAtTerminal } from "./terminal/confirm.ts";
import { CliFailure, EXIT } from "./terminal/failure.ts";
import { quoteWord } from "./terminal/invocation.ts";
import type { Screen } from "./terminal/screen.ts";

/** The command that helps most. A data folder that other users can read comes first, then missing isolation. */
export function findRemedy({ data, sandboxes, defaultSandbox }: Diagnostics): string | undefined {
  if (!data.ok && data.hint?.includes("chmod 700")) return `chmod 700 ${quoteWord(data.folder)}`;
  if (defaultSandbox !== null) return undefined;
  const remedies = sandboxes.filter(({ ok, isolated }) => !ok && isolated).map(({ command }) => command);
  return remedies.find((command) => command !== undefined && isComplete(command));
}

/** Whether the command can be run as it is. One with a placeholder is only advice to a person. */
function isComplete(command: string): boolean {
  return !command.includes("…");
}

/** Runs the command after a confirmation. Returns whether it succeeded. */
export async function runRemedy(
  command: string,
  { isSure, screen }: { isSure: boolean; screen: Screen },
): Promise<boolean> {
  if (!isSure) {
    if (!isAtTerminal())
      throw new CliFailure(
        `Nothing was changed: without a terminal, say --yes to run \`${command}\`.`,
        EXIT.usage,
      );
    if (!(await confirm(`Run \`${command}\`?`, { signal: screen.closed })))
      throw new CliFailure("Nothing was changed.");
  }
  screen.note(`Running ${command}`);
  // Its output is for people; standard output has only the report.
  const child = spawn("sh", ["-c", command], { stdio: ["inherit", 2, 2] });
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) screen.fail(`The command failed (exit code ${code ?? "none"}).`);
  return code === 0;
}
