import type { Command } from "commander";
import { addWhereOptions, locateSandboxes, type WhereOptions } from "../../source/locate.ts";
import type { CommandContext, Screen } from "../../terminal/screen.ts";

const EXAMPLES = `
The session needs to be idle. Its files and its agent's memory go to a new sandbox as a checkpoint; messages that come
meanwhile wait. Then the old sandbox is removed. If anything fails, the session stays where it was.

Examples:
  sluice move my-session --to local
  sluice move my-session --to ssh://build@example.com
  sluice move my-session --to kubernetes --server http://127.0.0.1:7433

Exit codes: 0 done · 1 failed · 2 bad usage
`;

interface MoveOptions extends WhereOptions {
  readonly to: string;
  readonly json?: boolean;
}

export function addMove(program: Command, { screen }: CommandContext): void {
  const command = program
    .command("move")
    .description("Move a session to a sandbox of another provider.")
    .argument("<session>", "the session's id")
    .requiredOption("--to <provider>", "the new sandbox, as in sluice run --sandbox")
    .option("--json", "the session as one JSON object");
  addWhereOptions(command)
    .addHelpText("after", EXAMPLES)
    .action((session: string, options: MoveOptions) => move(session, options, screen));
}

async function move(session: string, options: MoveOptions, screen: Screen): Promise<void> {
  const sandboxes = await locateSandboxes(options);
  try {
    screen.status(`moving to ${options.to} …`);
    const moved = await sandboxes.move(session, options.to);
    screen.status("");
    await screen.line(options.json ? JSON.stringify(moved) : `Moved ${session} to ${moved.sandbox}`);
  } finally {
    screen.status("");
    await sandboxes.close();
  }
}
