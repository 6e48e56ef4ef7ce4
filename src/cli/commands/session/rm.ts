import type { Command } from "commander";
import type { CommandContext } from "../../terminal/screen.ts";
import { addServerOptions, demandServer, type WhereOptions } from "../../source/locate.ts";
import { named } from "../../source/server.ts";
import { confirm, isAtTerminal } from "../../terminal/confirm.ts";
import { CliFailure, EXIT } from "../../terminal/failure.ts";
import type { Screen } from "../../terminal/screen.ts";
import { toOneLine } from "../../transcript/pen.ts";

const EXAMPLES = `
Every process of the session ends, and its log, its sandbox and its files there are removed. A folder that the session
was given (--cwd) stays. At a terminal a confirmation comes first; elsewhere --yes is needed.

Examples:
  sluice rm my-session
  sluice rm my-session --yes
  sluice sessions --status ended --json | jq -r .sessionId | xargs -n1 sluice rm --yes

Exit codes: 0 removed · 1 failed or not confirmed · 2 bad usage, such as no --yes without a terminal
`;

interface RmOptions extends WhereOptions {
  readonly yes?: boolean;
}

export function addRm(program: Command, { screen }: CommandContext): void {
  const command = program
    .command("rm")
    .description("Remove a session, its log and its sandbox.")
    .argument("<session>", "the session's id")
    .option("-y, --yes", "remove without a confirmation");
  addServerOptions(command)
    .addHelpText("after", EXAMPLES)
    .action((session: string, options: RmOptions) => remove(session, options, screen));
}

async function remove(session: string, options: RmOptions, screen: Screen): Promise<void> {
  if (!options.yes && !isAtTerminal())
    throw new CliFailure(`Nothing was removed: without a terminal, say --yes.`, EXIT.usage);
  const { client, url } = await demandServer(options);
  if (!options.yes) {
    const { title, status, eventCount } = await named(session, url, client.sessions.get(session));
    const name = title === null ? "" : ` (${toOneLine(title, 60)})`;
    const question = `Remove ${session}${name}, ${status}, with ${eventCount} events and its files?`;
    if (!(await confirm(question, { signal: screen.closed }))) throw new CliFailure("Nothing was removed.");
  }
  await named(session, url, client.sessions.delete(session));
  await screen.line(`Removed ${session}`);
}
